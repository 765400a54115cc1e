#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>

#include <rdma/rdma_netlink.h>

#include "wire/netlink/message.h"

namespace verbatim::wire::netlink {

/// A request to the RDMA subsystem (rdma/rdma_netlink.h): a message whose type has a client (upper
/// 6 bits: RDMA_NL_NLDEV is the one of devices) and its operation (RDMA_NLDEV_CMD_...).
struct RdmaRequest {
  Header header;
  std::uint16_t client = 0;
  std::uint16_t operation = 0;

  /// Attributes with 32-bit numbers, by their type: RDMA_NLDEV_ATTR_DEV_INDEX, RES_LQPN and so on.
  std::optional<std::uint32_t> number(std::uint16_t attribute) const {
    return attribute < numbers.size() ? numbers[attribute] : std::nullopt;
  }
  std::array<std::optional<std::uint32_t>, RDMA_NLDEV_ATTR_MAX> numbers{};
  std::optional<std::string_view> character_device;  // The kind: "uverbs". In the message's bytes.
};

/// Decodes a message. Unknown attributes are ignored, as by the kernel; error: the errno value of
/// an attribute that is too short.
std::expected<RdmaRequest, int> decode_rdma_request(const Message& message);

/// The message type of an operation on devices.
constexpr std::uint16_t rdma_message_type(std::uint16_t operation) {
  return static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, operation));
}

}  // namespace verbatim::wire::netlink

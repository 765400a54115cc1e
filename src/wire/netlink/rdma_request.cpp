#include "wire/netlink/rdma_request.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::wire::netlink {
namespace {

/// What requests name by a 32-bit number.
constexpr std::array<std::uint16_t, 12> kNumbers = {
    RDMA_NLDEV_ATTR_DEV_INDEX,  RDMA_NLDEV_ATTR_PORT_INDEX,      RDMA_NLDEV_ATTR_RES_LQPN,
    RDMA_NLDEV_ATTR_RES_PDN,    RDMA_NLDEV_ATTR_RES_CQN,         RDMA_NLDEV_ATTR_RES_MRN,
    RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CTXN,        RDMA_NLDEV_ATTR_RES_SRQN,
    RDMA_NLDEV_ATTR_STAT_RES,   RDMA_NLDEV_ATTR_STAT_COUNTER_ID, RDMA_NLDEV_ATTR_STAT_MODE};

}  // namespace

std::expected<RdmaRequest, int> decode_rdma_request(const Message& message) {
  RdmaRequest request;
  request.header = message.header;
  request.client = RDMA_NL_GET_CLIENT(message.header.type);
  request.operation = RDMA_NL_GET_OP(message.header.type);
  ByteSpan rest = message.attributes();
  while (const auto attribute = take_attribute(rest)) {
    if (attribute->type == RDMA_NLDEV_ATTR_CHARDEV_TYPE) {
      request.character_device = attribute->text();
      if (!request.character_device) return std::unexpected(EINVAL);
    } else if (std::ranges::find(kNumbers, attribute->type) != kNumbers.end()) {
      request.numbers[attribute->type] = attribute->number<std::uint32_t>();
      if (!request.numbers[attribute->type]) return std::unexpected(EINVAL);
    }
  }
  return request;
}

}  // namespace verbatim::wire::netlink

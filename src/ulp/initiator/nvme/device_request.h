#pragma once

#include <cstdint>
#include <optional>

#include "ulp/nvmeof/wire/command.h"

namespace verbatim::ulp::initiator {

/// An ioctl of a program on a device, as the view's library sends it (src/dropin/view/initiator.h):
/// the number, how many bytes of data, struct nvme_passthru_cmd in 80 bytes, and what goes to the
/// device.
struct DeviceRequest {
  static constexpr std::uint32_t kDataBytesMax = 64 << 10;
  std::uint32_t number = 0;
  std::uint32_t data_bytes = 0;
  bool is_to_device = false, is_from_device = false;
  nvmeof::AdminCommand command;
  ByteSpan data;
};
/// None: it is none, or its lengths are wrong.
std::optional<DeviceRequest> decode_device_request(ByteSpan message);

}  // namespace verbatim::ulp::initiator

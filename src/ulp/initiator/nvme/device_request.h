#pragma once

#include <cstdint>
#include <optional>

#include "ulp/nvmeof/wire/command.h"

namespace verbatim::ulp::initiator {

/// What programs ask of devices: ioctls, by type and number as Linux has them, and calls on block
/// devices, whose numbers are ours.
enum class DeviceCall : std::uint32_t {
  id = 0x4e40,  // NVME_IOCTL_...
  admin = 0x4e41,
  io = 0x4e43,
  reset = 0x4e44,
  rescan = 0x4e46,
  admin_64 = 0x4e47,
  io_64 = 0x4e48,
  is_read_only = 0x125e,  // BLK...
  sectors = 0x1260,
  flush_buffers = 0x1261,
  block_bytes = 0x1268,
  page_bytes = 0x1270,
  set_page_bytes = 0x1271,
  bytes = 0x1272,
  discard = 0x1277,
  least_bytes = 0x1278,
  best_bytes = 0x1279,
  alignment = 0x127a,
  physical_bytes = 0x127b,
  zeroes_by_discard = 0x127c,
  is_rotational = 0x127e,
  write_zeroes = 0x127f,
  read = 0x5601,
  write = 0x5602,
  seek = 0x5603,
  flush = 0x5604,
};

/// A call of a program on a device, as the view's library sends it (src/dropin/view/device.h): the
/// number, how many bytes of data, struct nvme_passthru_cmd in 80 bytes, and what goes to the
/// device.
struct DeviceRequest {
  static constexpr std::uint32_t kDataBytesMax = 64 << 10;
  DeviceCall call{};
  std::uint32_t data_bytes = 0;
  bool is_to_device = false, is_from_device = false;
  nvmeof::AdminCommand command;
  ByteSpan data;
  // `read`, `write`, `seek`: dwords 10 to 12; `discard`, `write_zeroes`: 10 to 13.
  std::uint64_t offset() const { return command.dwords_64(10); }
  std::uint64_t length() const { return command.dwords_64(12); }
  std::uint32_t how() const { return command.dword(12); }  // `seek`: SEEK_SET and so on.
  static constexpr std::uint32_t kAtPosition = 1;          // Where the descriptor is.
};
/// None: it is none, or its lengths are wrong.
std::optional<DeviceRequest> decode_device_request(ByteSpan message);

}  // namespace verbatim::ulp::initiator

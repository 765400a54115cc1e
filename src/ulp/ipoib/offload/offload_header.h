#pragma once

#include <cstdint>

namespace verbatim::ulp::ipoib {

/// What stands before each packet (`struct virtio_net_hdr`), in the machine's byte order: zeros,
/// where nothing is offloaded.
struct OffloadHeader {
  /// The checksum at `checksum_start + checksum_offset` has the pseudo header's sum alone.
  static constexpr std::uint8_t kNeedsChecksum = 1;
  static constexpr std::uint8_t kChecksumIsRight = 2;
  static constexpr std::uint8_t kTcpIpv4 = 1, kTcpIpv6 = 4, kUdp = 5;
  static constexpr std::uint8_t kCongestion = 0x80;  // A bit of `type`: CWR in the first alone.

  std::uint8_t flags = 0;
  std::uint8_t type = 0;
  std::uint16_t header_bytes = 0;
  std::uint16_t segment_bytes = 0;
  std::uint16_t checksum_start = 0;
  std::uint16_t checksum_offset = 0;
};
static_assert(sizeof(OffloadHeader) == 10);

}  // namespace verbatim::ulp::ipoib

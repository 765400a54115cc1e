#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Byte offsets of TCP's header (RFC 9293, section 3.1), and of UDP's.
namespace verbatim::ulp::ipoib::tcp {

inline constexpr std::size_t kBytes = 20, kSequenceAt = 4, kLengthAt = 12, kFlagsAt = 13;
inline constexpr std::size_t kChecksumAt = 16;
inline constexpr std::byte kFin{0x01}, kPush{0x08}, kAck{0x10}, kCongestion{0x80};

/// With options; 0 for what is no TCP header.
inline std::size_t header_bytes(ByteSpan segment) {
  if (segment.size() < kBytes) return 0;
  const std::size_t bytes = std::to_integer<std::size_t>(segment[kLengthAt] >> 4) * 4;
  return bytes < kBytes || bytes > segment.size() ? 0 : bytes;
}

}  // namespace verbatim::ulp::ipoib::tcp

namespace verbatim::ulp::ipoib::udp {

inline constexpr std::size_t kBytes = 8, kLengthAt = 4, kChecksumAt = 6;

}  // namespace verbatim::ulp::ipoib::udp

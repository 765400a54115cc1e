#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "base/types.h"
#include "wire/error.h"

namespace verbatim::wire {

/// Global Route Header (IBA volume 1, section 8.3), in the layout of an IPv6 header.
///
///     byte   0-3                                      4-5      6        7       8-23   24-39
///          +---------+---------------+------------+---------+--------+-------+------+------+
///          | version | traffic class | flow label | payload | next   | hop   | SGID | DGID |
///          |    6    |               |            | length  | header | limit |      |      |
///          +---------+---------------+------------+---------+--------+-------+------+------+
///     bits      4            8             20         16        8        8     128    128
struct Grh {
  static constexpr std::size_t kSize = 40;
  /// Next header of InfiniBand and RoCE v1 packets; a BTH follows.
  static constexpr std::uint8_t kNextIba = 0x1b;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;      // 20 bits.
  std::uint16_t payload_length = 0;  // Bytes after this header, to the end of the ICRC.
  std::uint8_t next_header = kNextIba;
  std::uint8_t hop_limit = 0;
  Gid source{};
  Gid destination{};
  friend bool operator==(const Grh&, const Grh&) = default;
};

/// Checks the length and the version.
std::expected<Grh, WireError> decode_grh(ByteSpan bytes);
void encode(const Grh& header, std::span<std::byte, Grh::kSize> out);

/// A RoCE v1 packet in a frame: the GRH, and the bytes from the BTH to the end of the ICRC, without
/// Ethernet's padding. Fails if the frame has no such packet.
struct GrhPacket {
  Grh grh;
  MutableByteSpan packet;  // Borrowed.
};
std::expected<GrhPacket, WireError> decode_grh_packet(MutableByteSpan payload);

}  // namespace verbatim::wire

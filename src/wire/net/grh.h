#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "base/types.h"
#include "wire/error.h"

namespace verbatim::wire {

struct IpFlow;
struct IpUdp;

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

/// Writes the GRH of a RoCE v1 packet of `packet_bytes`, from the BTH to the end of the ICRC.
void encode_packet_grh(const IpFlow& flow, std::size_t packet_bytes,
                       std::span<std::byte, Grh::kSize> out);

/// A RoCE v1 packet in a frame: the GRH, and the bytes from the BTH to the end of the ICRC, without
/// Ethernet's padding. Fails if the frame has no such packet.
struct GrhPacket {
  Grh grh;
  MutableByteSpan packet;  // Borrowed.
};
std::expected<GrhPacket, WireError> decode_grh_packet(MutableByteSpan payload);

/// Writes the 40 bytes before the payload in a UD receive buffer. RoCE v1: the GRH. IPv6: the IPv6
/// header. IPv4: 20 zero bytes, then the IPv4 header with a right checksum, by which receivers
/// recognise it.
void encode_receive_grh(const IpUdp& headers, std::span<std::byte, Grh::kSize> out);

/// The value that a UD completion has in place of InfiniBand's service level: it tells whether the
/// packet came over IPv4 or IPv6 (IBA A17.4.5.1), in the format of NVIDIA's cards, which UCX relies
/// on. Bit 3: UDP; bits 1 and 0: 0 for a GRH (RoCE v1), 1 IPv6, 2 IPv4.
std::uint8_t packet_type(const IpFlow& flow);

}  // namespace verbatim::wire

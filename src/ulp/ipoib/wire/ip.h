#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/net/address.h"
#include "ulp/ipoib/wire/link_layer.h"

/// What IP over InfiniBand reads of IP packets (RFC 791, RFC 8200), and the checksum of the
/// Internet (RFC 1071).
namespace verbatim::ulp::ipoib {

inline constexpr std::size_t kIpv4Bytes = 20, kIpv6Bytes = 40;
inline constexpr std::uint8_t kIcmp = 1, kIgmp = 2, kTcp = 6, kUdp = 17, kIcmpv6 = 58;

/// Of both families. `payload` is behind the header; of IPv6 behind hop-by-hop options, too.
struct IpPacket {
  EtherType type{};
  SocketAddress source, destination;
  std::uint8_t protocol = 0;
  std::uint8_t hop_limit = 0;
  bool is_fragment = false;        // Not the first one: its payload has no header.
  bool may_be_fragmented = false;  // IPv4 without DF.
  ByteSpan payload;
};
/// Nothing for what is no whole IP packet: shorter than it says. What follows it is cut off.
std::optional<IpPacket> decode_ip(ByteSpan packet);
/// The destination alone, if the packet has a header. For each packet of the interface.
std::optional<SocketAddress> destination_of(ByteSpan packet);
/// IPv4 or IPv6. The packet is not empty.
inline EtherType type_of(ByteSpan packet) {
  return std::to_integer<unsigned>(packet[0]) >> 4 == 4 ? EtherType::ipv4 : EtherType::ipv6;
}

/// The sum of 16-bit words; a last odd byte counts as if a zero followed.
std::uint32_t sum_of(ByteSpan bytes, std::uint32_t sum = 0);
/// Its complement in 16 bits.
std::uint16_t checksum_of(std::uint32_t sum);
/// The sum of a pseudo header (RFC 8200, section 8.1; RFC 9293, section 3.1).
std::uint32_t pseudo_sum(const SocketAddress& source, const SocketAddress& destination,
                         std::uint8_t protocol, std::size_t bytes);

}  // namespace verbatim::ulp::ipoib

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/net/address.h"
#include "base/types.h"
#include "wire/error.h"

/// The IP and UDP headers of a RoCE v2 datagram (RFC 791, RFC 8200, RFC 768; IBA annex A17). The
/// kernel writes and strips them. Verbatim builds them for the ICRC, which covers them, for the GRH
/// of a UD receive, and for captures. RoCE v1 has a GRH instead (annex A16).
namespace verbatim::wire {

inline constexpr std::size_t kIpv4HeaderBytes = 20;
inline constexpr std::size_t kIpv6HeaderBytes = 40;
inline constexpr std::size_t kUdpHeaderBytes = 8;
inline constexpr std::size_t kIpUdpMaxBytes = kIpv6HeaderBytes + kUdpHeaderBytes;

/// The fields that all packets from one sender to one receiver share. Addresses are GIDs: both IPv4
/// addresses mapped into IPv6, or neither. A destination port of 0 means RoCE v1.
struct IpFlow {
  Gid source{};
  Gid destination{};
  std::uint16_t source_port = kRocePort;
  std::uint16_t destination_port = kRocePort;
  std::uint8_t traffic_class = 0;  // IPv4: TOS.
  std::uint8_t hop_limit = 64;     // IPv4: time to live.
  std::uint32_t flow_label = 0;    // IPv6 only, 20 bits.
  bool dont_fragment = true;       // IPv4 only.

  constexpr bool has_grh() const { return destination_port == 0; }
  constexpr bool is_ipv4() const { return !has_grh() && source.is_ipv4_mapped(); }
  constexpr std::size_t ip_header_bytes() const {
    return is_ipv4() ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  }
  friend bool operator==(const IpFlow&, const IpFlow&) = default;
};

/// Returns the flow between two sockets, whose addresses have the ports of their RoCE version.
inline IpFlow flow_of(const SocketAddress& source, const SocketAddress& destination) {
  return {.source = gid_of(source),
          .destination = gid_of(destination),
          .source_port = source.port(),
          .destination_port = destination.port()};
}

/// The IP and UDP headers of one datagram.
struct IpUdp {
  IpFlow flow{};
  std::uint16_t udp_length = kUdpHeaderBytes;  // UDP header and payload.
  std::uint16_t identification = 0;            // IPv4 only.
  friend bool operator==(const IpUdp&, const IpUdp&) = default;
};

/// Writes only the IP header (IPv4: with the right checksum) and returns its size: 20 or 40 bytes.
/// `out` has at least kIpv4HeaderBytes for IPv4, else kIpv6HeaderBytes.
std::size_t encode_ip(const IpUdp& headers, MutableByteSpan out);

/// Writes both headers, with a zero UDP checksum, which means "none" (annex A17.4.5.3). Returns
/// their size: 28 or 48 bytes.
std::size_t encode_ip_udp(const IpUdp& headers, MutableByteSpan out);

/// Decodes the headers of `datagram`, a complete IP packet. Checks lengths and the IPv4 checksum;
/// refuses options, fragments and extension headers.
std::expected<IpUdp, WireError> decode_ip_udp(ByteSpan datagram);

}  // namespace verbatim::wire

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Headers of tunnels: what is put before a frame, Ethernet first, and what is taken away again.
namespace verbatim::offload {

/// Bytes of the longest header that a rule may put before a frame: Ethernet, VLAN, IPv6, UDP,
/// Geneve with options.
inline constexpr std::size_t kTunnelHeaderMax = 128;

/// Fills in what depends on the frame: the lengths, IPv4's checksum, of UDP the source port by
/// which networks spread flows (RFC 7348, 4.1; unless the header has one) and, if it is not zero in
/// the header, the checksum. `frame` begins with the header, and is a packet as on the wire.
void finish_tunnel_header(MutableByteSpan frame, std::size_t header_bytes, std::uint32_t flow_hash);

/// The headers before what is in a tunnel.
struct TunnelHeaders {
  std::size_t bytes = 0;          // 0: it is no packet of a tunnel.
  std::uint16_t packet_type = 0;  // What follows is no frame, but a packet of this type.
};
/// Any UDP datagram that is not to Geneve's port counts as VXLAN.
TunnelHeaders tunnel_headers(ByteSpan frame);

}  // namespace verbatim::offload

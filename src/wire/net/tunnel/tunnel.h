#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

/// Headers of tunnels, which stand between UDP or IP and what is in the tunnel.
namespace verbatim::wire {

enum class TunnelKind : std::uint8_t { kNone, kVxlan, kGeneve, kGre };

inline constexpr std::uint16_t kVxlanPort = 4789;   // UDP's destination (RFC 7348).
inline constexpr std::uint16_t kGenevePort = 6081;  // RFC 8926.
inline constexpr std::uint16_t kTypeTransparentEthernet = 0x6558;
inline constexpr std::size_t kGeneveBytes = 8;  // Before the options.

struct TunnelHeader {
  TunnelKind kind = TunnelKind::kNone;
  std::uint32_t id = 0;        // 24 bits of the network; GRE: its key, 0 without one.
  std::uint16_t protocol = 0;  // EtherType of what follows; kTypeTransparentEthernet: a frame.
  std::size_t bytes = 0;       // Of the header with its options.
  friend bool operator==(const TunnelHeader&, const TunnelHeader&) = default;
};

/// VXLAN (RFC 7348), always before a frame. Nothing if it is cut short or has no identifier.
///
///     byte  0        1-3        4-6                   7
///         +--------+----------+---------------------+----------+
///         |RRRRIRRR| reserved | network identifier  | reserved |
///         +--------+----------+---------------------+----------+
std::optional<TunnelHeader> decode_vxlan(ByteSpan payload);

/// Geneve (RFC 8926). Nothing if it is cut short, of another version, or a control packet.
///
///     byte  0                1          2-3             4-6                   7
///         +------+---------+----------+---------------+---------------------+----------+
///         | ver  | options |O|C| rsvd | protocol type | network identifier  | reserved |
///         +------+---------+----------+---------------+---------------------+----------+
///         | options, in units of four bytes
std::optional<TunnelHeader> decode_geneve(ByteSpan payload);

/// GRE (RFC 2784, RFC 2890). Nothing if it is cut short, or has routing or another version.
///
///     byte  0-1               2-3             then, four bytes each, if their bit is set
///         +-+-+-+-+--------+---------------+------------------+-------+----------+
///         |C|R|K|S|   ver  | protocol type | checksum (C), 0  |key (K)|number (S)|
///         +-+-+-+-+--------+---------------+------------------+-------+----------+
std::optional<TunnelHeader> decode_gre(ByteSpan payload);

/// The tunnel that UDP's destination port announces.
inline std::optional<TunnelHeader> decode_udp_tunnel(std::uint16_t port, ByteSpan payload) {
  if (port == kVxlanPort) return decode_vxlan(payload);
  if (port == kGenevePort) return decode_geneve(payload);
  return {};
}

}  // namespace verbatim::wire

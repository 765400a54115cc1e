#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ulp/ipoib/wire/link_layer.h"

namespace verbatim::ulp::ipoib {

/// Where an interface takes connections: Linux's service ids begin with 0x10, RFC 4755 (3.5) says
/// 0x01. The queue pair is that of datagrams, as ARP names it.
inline constexpr std::uint64_t kServiceOfLinux = 0x10ull << 56, kServiceOfIetf = 0x01ull << 56;
constexpr std::uint64_t service_of(Qpn datagrams, std::uint64_t form = kServiceOfLinux) {
  return form | datagrams.value();
}

/// The largest IP packet of connected mode, as Linux has it.
inline constexpr std::uint32_t kConnectedMtu = 65520;

/// The private data by which both sides of a connection say who they are and what they take (RFC
/// 4755, section 3.3). What follows is not looked at: the CM tells no length.
///
///     byte   0-3        4-7
///          +----------+--------------------------------------------------+
///          | UD QPN   | bytes that it receives, the encapsulation's too  |
///          +----------+--------------------------------------------------+
struct ConnectedPeer {
  static constexpr std::size_t kSize = 8;
  Qpn datagrams{};
  std::uint32_t receive_bytes = 0;
  /// The longest packet that may be sent to it.
  std::uint32_t mtu() const {
    return receive_bytes - static_cast<std::uint32_t>(kEncapsulationBytes);
  }
  friend bool operator==(const ConnectedPeer&, const ConnectedPeer&) = default;
};
/// Nothing for who takes no packet at all.
std::optional<ConnectedPeer> decode_connected_peer(ByteSpan private_data);
std::array<std::byte, ConnectedPeer::kSize> encode(const ConnectedPeer& peer);

}  // namespace verbatim::ulp::ipoib

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "wire/net/tunnel/tunnel.h"

namespace verbatim::offload {

enum Fragment : std::uint8_t { kNoFragment = 0, kFirstFragment = 1, kLaterFragment = 3 };
inline constexpr std::uint8_t kTagPresent = 0x10;  // In the first byte of Key::vlan_tag.

/// What rules match of a frame, in network byte order; zeros for what it does not have. Eight
/// words: rules mask, hash and compare a key as such.
struct alignas(std::uint64_t) Key {
  std::array<std::uint8_t, 6> destination_mac{};
  std::array<std::uint8_t, 6> source_mac{};
  std::array<std::uint8_t, 2> ether_type{};     // Of what follows the first VLAN tag.
  std::array<std::uint8_t, 2> vlan_tag{};       // The first tag, and kTagPresent.
  std::array<std::uint8_t, 2> vlan_protocol{};  // The type that announces the tag.
  std::uint8_t protocol = 0;                    // After the IPv6 extension headers.
  std::uint8_t traffic_class = 0;               // IPv4: TOS.
  std::uint8_t hop_limit = 0;                   // IPv4: time to live.
  std::uint8_t fragment = kNoFragment;
  std::array<std::uint8_t, 2> tcp_flags{};         // Twelve bits.
  std::array<std::uint8_t, 2> source_port{};       // ICMP: the type.
  std::array<std::uint8_t, 2> destination_port{};  // ICMP: the code.
  std::uint16_t port = 0;                          // Of the switch, from which the frame came.
  std::uint16_t group = 0;                         // In which the search goes on.
  std::array<std::uint8_t, 16> source_ip{};        // IPv4: in the first four bytes.
  std::array<std::uint8_t, 16> destination_ip{};
  friend bool operator==(const Key& a, const Key& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
};

using KeyWords = std::array<std::uint64_t, 8>;
static_assert(sizeof(Key) == sizeof(KeyWords));
inline KeyWords words(const Key& key) { return std::bit_cast<KeyWords>(key); }
template <typename AnyKey>  // Key or TunnelKey
std::uint64_t word(const AnyKey& key, std::size_t at) {
  std::uint64_t value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(&key) + at * sizeof value, sizeof value);
  return value;
}
inline Key masked(const Key& key, const Key& mask) {
  KeyWords both = words(key);
  for (std::size_t i = 0; i < both.size(); ++i) both[i] &= words(mask)[i];
  return std::bit_cast<Key>(both);
}

/// What rules match of a tunnel and of the frame in it: nine words.
struct alignas(std::uint64_t) TunnelKey {
  wire::TunnelKind kind = wire::TunnelKind::kNone;
  std::uint8_t reserved = 0;
  std::array<std::uint8_t, 2> protocol{};  // EtherType of what is in it; 0x6558: a frame.
  std::array<std::uint8_t, 4> id{};        // VXLAN, Geneve: 24 bits; GRE: the key, 0 without one.
  Key inner;                               // Without port and group; IP in GRE: without MACs.
  friend bool operator==(const TunnelKey&, const TunnelKey&) = default;
};

using TunnelWords = std::array<std::uint64_t, 9>;
static_assert(sizeof(TunnelKey) == sizeof(TunnelWords));
inline TunnelWords words(const TunnelKey& key) { return std::bit_cast<TunnelWords>(key); }

/// A tunnel's packet: what rules match of it.
struct InTunnel {
  TunnelKey key;
  ByteSpan options;  // Geneve's, in the frame.
};

/// Reads the key of a frame that came from `port`. Returns false if a header is malformed or cut
/// short: such a frame is software's. One pass for speed: wire/net/frame.h knows more headers.
bool read_key(ByteSpan frame, std::uint16_t port, Key& key);
inline std::optional<Key> key_of(ByteSpan frame, std::uint16_t port) {
  Key key;
  return read_key(frame, port, key) ? std::optional(key) : std::nullopt;
}

/// Returns what is in the tunnel whose packet the frame is, VXLAN and Geneve by their UDP ports.
/// `key`: the frame's. Nothing if it is none, or what is in it is malformed.
std::optional<InTunnel> tunnel_of(ByteSpan frame, const Key& key);
/// Bytes before what is in the tunnel, whose EtherType is `protocol` then. 0: it is no tunnel's.
std::size_t tunnel_bytes(ByteSpan frame, const Key& key, std::uint16_t& protocol);

}  // namespace verbatim::offload

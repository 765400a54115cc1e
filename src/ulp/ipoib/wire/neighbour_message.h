#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ulp/ipoib/wire/link_layer.h"

namespace verbatim::ulp::ipoib {

/// A neighbour solicitation or advertisement (RFC 4861, sections 4.3 and 4.4), with its IPv6
/// header. Its option names an interface by 20 bytes behind two of zero (RFC 4391, section 9.3).
struct NeighbourMessage {
  static constexpr std::size_t kSizeMax = 40 + 24 + 24;
  enum class Kind : std::uint8_t { solicitation = 135, advertisement = 136 };
  Kind kind{};
  Ipv6 source{}, destination{};
  Ipv6 target{};
  // Of an advertisement.
  bool is_router = false, is_solicited = false, overrides = false;
  /// The sender's; in an advertisement the target's.
  std::optional<HardwareAddress> address;
  friend bool operator==(const NeighbourMessage&, const NeighbourMessage&) = default;
};
/// True for what a kernel must not see, because it knows no address of 20 bytes.
bool is_neighbour_message(ByteSpan packet);
/// Nothing for what is none, or breaks RFC 4861, sections 7.1.1 and 7.1.2.
std::optional<NeighbourMessage> decode_neighbour_message(ByteSpan packet);
/// Returns how many bytes it has.
std::size_t encode(const NeighbourMessage& message,
                   std::span<std::byte, NeighbourMessage::kSizeMax> out);

/// ff02::1:ffXX:XXXX, where those who have the address listen (RFC 4291, section 2.7.1).
Ipv6 solicited_node(const Ipv6& address);
inline constexpr Ipv6 kAllNodes{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace verbatim::ulp::ipoib

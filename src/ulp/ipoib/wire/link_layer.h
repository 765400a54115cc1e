#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/net/address.h"
#include "base/types.h"

/// IP over InfiniBand's link layer (RFC 4391). Byte offsets are in this folder alone.
namespace verbatim::ulp::ipoib {

enum class EtherType : std::uint16_t { ipv4 = 0x0800, arp = 0x0806, rarp = 0x8035, ipv6 = 0x86dd };

/// What stands before each packet: the type, and two bytes of zero (RFC 4391, section 6).
inline constexpr std::size_t kEncapsulationBytes = 4;
using Encapsulation = std::array<std::byte, kEncapsulationBytes>;
Encapsulation encapsulation(EtherType type);

/// A datagram of the link: what it says it carries, and that. The two bytes of zero are not looked
/// at.
struct Frame {
  EtherType type{};
  ByteSpan packet;
};
/// Nothing for what is too short to have a type.
std::optional<Frame> decode_frame(ByteSpan datagram);

/// The 20 bytes by which ARP and neighbour discovery name an interface (section 9.1.1). The queue
/// pair number changes when the peer's interface begins anew.
///
///     byte   0       1-3      4-19
///          +-------+--------+-----------+
///          | flags | QPN    | port GID  |      flags: 0x80 connected mode (RC), 0x40 (UC)
///          +-------+--------+-----------+
struct HardwareAddress {
  static constexpr std::size_t kSize = 20;
  static constexpr std::uint8_t kConnected = 0x80;
  std::uint8_t flags = 0;
  Qpn qpn{};
  Gid gid{};
  bool takes_connections() const { return (flags & kConnected) != 0; }
  /// As `ip neigh` of a card's interface prints it.
  std::string text() const;
  friend bool operator==(const HardwareAddress&, const HardwareAddress&) = default;
};
HardwareAddress decode_hardware_address(std::span<const std::byte, HardwareAddress::kSize> bytes);
void encode(const HardwareAddress& address, std::span<std::byte, HardwareAddress::kSize> out);

using Ipv4 = std::array<std::uint8_t, 4>;
using Ipv6 = std::array<std::uint8_t, 16>;

}  // namespace verbatim::ulp::ipoib

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/net/address.h"

/// How Lustre's network names its ends: an address at a network, "10.78.0.3@o2ib1".
namespace verbatim::ulp::lnet {

/// A network: its type in the upper half, its number in the lower.
enum class Net : std::uint32_t {};
inline constexpr std::uint16_t kO2ib = 5, kLoopback = 9;
constexpr Net o2ib(std::uint16_t number) { return Net{std::uint32_t{kO2ib} << 16 | number}; }
/// "o2ib" is "o2ib0". None: another type, or no number.
std::optional<Net> parse_net(std::string_view text);
std::string text_of(Net net);

/// The 4-byte kind, the only one that o2iblnd's messages have: the network, and an IPv4 address in
/// the host's order.
struct Nid {
  std::uint64_t value = 0;
  Net net() const { return Net{static_cast<std::uint32_t>(value >> 32)}; }
  std::uint32_t address() const { return static_cast<std::uint32_t>(value); }
  friend auto operator<=>(const Nid&, const Nid&) = default;
};
constexpr Nid make_nid(Net net, std::uint32_t address) {
  return {std::uint64_t{static_cast<std::uint32_t>(net)} << 32 | address};
}
inline constexpr Nid kLoopbackNid = make_nid(Net{std::uint32_t{kLoopback} << 16}, 0);
/// "10.78.0.3@o2ib"; without a network it is o2ib0.
std::optional<Nid> parse_nid(std::string_view text);
std::string text_of(Nid nid);
/// Its address, with a port.
SocketAddress address_of(Nid nid, std::uint16_t port);

}  // namespace verbatim::ulp::lnet

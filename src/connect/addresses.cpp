#include "connect/addresses.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::connect {

bool is_wildcard(const SocketAddress& address) {
  const auto bytes = address.ipv6_bytes();
  const auto first = bytes.begin() + (address.is_ipv4() ? 12 : 0);
  return std::all_of(first, bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

Result<OwnAddress> Addresses::own(const SocketAddress& address) const {
  // Searches from the end: GID 0, the link-local one, may stand for an IPv4 address, too.
  for (std::size_t i = entries_.size(); i-- > 0;) {
    const OwnAddress& own = entries_[i];
    if (!is_valid(i)) continue;
    if (same_ip(own.address, address)) return own;
    if (address.is_link_local() && address.scope_id() == 0 &&
        own.address.ipv6_bytes() == address.ipv6_bytes()) {
      return own;
    }
  }
  if (is_own_loopback(address)) return source_for(address);
  return refuse(EADDRNOTAVAIL, fmt::format("{} is no address of this node", address.ip_text()));
}

Result<OwnAddress> Addresses::own(const Gid& gid) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!is_valid(i) || entries_[i].gid != gid) continue;
    OwnAddress own = entries_[i];
    if (own.port != 1) own.address = entries_[0].address;
    return own;
  }
  return refuse(EADDRNOTAVAIL, fmt::format("{} is no GID of this node", gid_text(gid)));
}

bool Addresses::is_own_loopback(const SocketAddress& address) const {
  if (own_loopback_ == OwnLoopback::any) return address.is_loopback();
  return own_loopback_ == OwnLoopback::localhost &&
         same_ip(address, SocketAddress::ipv4({127, 0, 0, 1}));
}

Result<OwnAddress> Addresses::source_for(const SocketAddress& destination) const {
  const OwnAddress* fitting = nullptr;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const OwnAddress& own = entries_[i];
    if (own.address.family() != destination.family() || !is_valid(i)) continue;
    const bool same_scope = own.address.is_link_local() == destination.is_link_local();
    // The entries after the first are the addresses' own GIDs; the first is made from the MAC.
    if (fitting == nullptr || same_scope) fitting = &own;
    if (same_scope && own.gid == gid_of(own.address)) break;
  }
  if (fitting != nullptr) return *fitting;
  return refuse(ENODEV, fmt::format("this node has no address from which to reach {}",
                                    destination.ip_text()));
}

std::vector<SocketAddress> Addresses::all(int family, bool both) const {
  std::vector<SocketAddress> addresses;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const SocketAddress& address = entries_[i].address;
    const bool is_wanted = both || address.family() == family;
    const bool is_known = std::ranges::any_of(
        addresses, [&](const SocketAddress& one) { return same_ip(one, address); });
    if (is_wanted && is_valid(i) && !is_known && !address.empty()) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace verbatim::connect

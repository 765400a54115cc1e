#include "arena/node.h"

#include <algorithm>
#include <cerrno>

namespace verbatim::arena {
namespace {

constexpr std::uint32_t kHeaders =
    40 /* IPv6 */ + 8 /* UDP */ + 12 /* BTH */ + 16 /* RETH */ + 4 /* ICRC */;

/// Those of a fabric's host, and none of others.
bool ports_fit(const Node& node) {
  const auto& ports = node.network.infiniband;
  return ports.size() <= kInfinibandPortsMax && ports.empty() != node.is_infiniband() &&
         std::ranges::all_of(ports,
                             [](const auto& port) { return port.pkeys.size() <= kPKeysMax; });
}

}  // namespace

void Node::add(const SocketAddress& address) {
  gids.push({gid_of(address), address});
  addresses.push(address);
}

std::size_t Node::index_of(const SocketAddress& address) const {
  return static_cast<std::size_t>(std::ranges::find(addresses, address) - addresses.begin());
}

Result<Node> checked(const Node& node) {
  const bool counts_fit = !node.addresses.empty() && node.addresses.size() <= kAddressesMax &&
                          node.gids.size() <= kNodeGidsMax && ports_fit(node);
  if (!counts_fit) return refuse(EPROTO, "a node description out of range");
  for (const SocketAddress& address : node.addresses) {
    if (!address.is_ipv4() && !address.is_ipv6()) return refuse(EPROTO, "an address of no family");
  }
  for (const GidEntry& entry : node.gids) {
    if (node.index_of(entry.address) == node.addresses.size()) {
      return refuse(EPROTO, "a GID without an address");
    }
  }
  Node good = node;
  good.name.make_printable();
  good.interface.make_printable();
  good.device.make_printable();
  good.profile.make_printable();
  good.firmware.make_printable();
  good.fabric.make_printable();
  good.host.make_printable();
  good.function.make_printable();
  return good;
}

Mtu active_mtu(std::uint32_t interface_mtu_bytes) {
  Mtu largest = Mtu::k256;
  for (const Mtu mtu : {Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (bytes_of(mtu) + kHeaders <= interface_mtu_bytes) largest = mtu;
  }
  return largest;
}

Mtu active_mtu(const InfinibandPort& port) {
  return std::clamp(static_cast<Mtu>(port.mtu), Mtu::k256, Mtu::k4096);
}

Mtu active_mtu(const Node& node) {
  if (node.is_infiniband()) return active_mtu(node.network.infiniband.front());
  return active_mtu(std::min(node.network.interface_mtu_bytes, node.limits.max_mtu + kHeaders));
}

}  // namespace verbatim::arena

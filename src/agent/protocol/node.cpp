#include "agent/protocol/node.h"

#include <algorithm>

namespace verbatim::agent {
namespace {

constexpr std::uint32_t kHeaders =
    40 /* IPv6 */ + 8 /* UDP */ + 12 /* BTH */ + 16 /* RETH */ + 4 /* ICRC */;

}  // namespace

void NodeDescription::add(const SocketAddress& address) {
  gids.push_back({gid_of(address), static_cast<std::uint32_t>(addresses.size())});
  addresses.push_back(address);
}

Mtu active_mtu(std::uint32_t interface_mtu_bytes) {
  Mtu largest = Mtu::k256;
  for (const Mtu mtu : {Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (bytes_of(mtu) + kHeaders <= interface_mtu_bytes) largest = mtu;
  }
  return largest;
}

Mtu active_mtu(const NodeDescription& node) {
  return active_mtu(std::min(node.port.interface_mtu_bytes, node.limits.max_mtu + kHeaders));
}

}  // namespace verbatim::agent

#include "agent/node.h"

namespace verbatim::agent {

void NodeDescription::add(const SocketAddress& address) {
  gids.push_back({gid_of(address), static_cast<std::uint32_t>(addresses.size())});
  addresses.push_back(address);
}

Mtu active_mtu(std::uint32_t interface_mtu_bytes) {
  constexpr std::uint32_t kHeaders =
      40 /* IPv6 */ + 8 /* UDP */ + 12 /* BTH */ + 16 /* RETH */ + 4 /* ICRC */;
  Mtu largest = Mtu::k256;
  for (const Mtu mtu : {Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (bytes_of(mtu) + kHeaders <= interface_mtu_bytes) largest = mtu;
  }
  return largest;
}

}  // namespace verbatim::agent

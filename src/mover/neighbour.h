#pragma once

#include <cstdint>

#include "base/address.h"
#include "base/error.h"

namespace verbatim::mover {

/// Where Ethernet frames for an IP address go.
struct LinkPlace {
  std::uint32_t interface_index = 0;
  MacAddress mac{};
};

/// Asks the kernel's routes and neighbours (rtnetlink(7)), and has it ask the network where it does
/// not know: waits three seconds at most then. An address of this machine: the loopback interface.
/// EHOSTUNREACH: nobody answers; or it is behind a router, which frames do not cross. ENETUNREACH:
/// there is no route. `interface_index` is for link-local addresses and groups.
Result<LinkPlace> find_link_place(const SocketAddress& destination, std::uint32_t interface_index);

/// The group's Ethernet address, as Linux has it for RoCE v1: 33:33 and the GID's last four bytes.
MacAddress multicast_mac(const SocketAddress& group);

}  // namespace verbatim::mover

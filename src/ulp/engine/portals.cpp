#include "ulp/engine/portals.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace verbatim::ulp {

bool is_any(const SocketAddress& address) {
  if (address.is_ipv4()) return address.ipv4_bytes() == std::array<std::uint8_t, 4>{};
  return address.is_ipv6() && address.ipv6_bytes() == std::array<std::uint8_t, 16>{};
}

bool is_at(std::span<const SocketAddress> portals, const SocketAddress& own) {
  return portals.empty() || std::ranges::any_of(portals, [&](const SocketAddress& portal) {
           return portal == own || (is_any(portal) && portal.port() == own.port());
         });
}

}  // namespace verbatim::ulp

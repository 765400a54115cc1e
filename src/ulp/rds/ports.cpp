#include "ulp/rds/ports.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::ulp::rds {

Result<SocketAddress> Ports::bind(SocketId socket, const SocketAddress& address) {
  if (address.port() != 0) {
    if (!bound_.try_emplace(address, socket).second)
      return refuse(EADDRINUSE, fmt::format("{} is in use", address));
    return address;
  }
  for (int i = 0; i < 0x10000; ++i) {
    next_ = std::max<std::uint16_t>(static_cast<std::uint16_t>(next_ + 1), kFirst);
    const SocketAddress chosen = address.with_port(next_);
    if (bound_.try_emplace(chosen, socket).second) return chosen;
  }
  return refuse(EADDRINUSE, fmt::format("all ports of {} are in use", address.ip_text()));
}

}  // namespace verbatim::ulp::rds

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::agent {

/// A network interface of this namespace.
struct Interface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu_bytes = 0;
  MacAddress mac{};  // Zeros if it has none.
  bool is_up = false;
  bool is_loopback = false;
  std::vector<SocketAddress> addresses;

  /// Returns its link-local IPv6 address with scope id, or an empty address.
  SocketAddress link_local() const;
  SocketAddress first_ipv4() const;
  bool has(const SocketAddress& address) const;
};

/// Returns them in the kernel's order.
Result<std::vector<Interface>> read_interfaces();

}  // namespace verbatim::agent

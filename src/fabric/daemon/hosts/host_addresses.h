#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/net/address.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// The IP address of each host, in the order of the topology: 127.F.x.y, where F, 64 to 191,
/// follows from the fabric's name. So programs of a fabric reach each other by TCP without any
/// interface, too. A host beyond the 65,534th has none.
class HostAddresses {
 public:
  HostAddresses(std::string_view fabric, const Topology& topology);

  /// Of a node; empty if it is no host.
  SocketAddress address_of(std::uint32_t node) const;
  /// Nothing if no host of the fabric has it.
  std::optional<std::uint32_t> node_with(const SocketAddress& address) const;

 private:
  std::uint8_t second_byte_;
  std::vector<std::uint32_t> hosts_;  // Nodes, in ascending order.
};

}  // namespace verbatim::fabric

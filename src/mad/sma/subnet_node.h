#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "wire/subnet/node.h"
#include "wire/subnet/port_info.h"

namespace verbatim::mad {

/// A port as its SMA keeps it.
struct SubnetPort {
  wire::PortInfo info;
  wire::MellanoxExtendedPortInfo mellanox;
  std::uint64_t guid = 0;
  std::vector<std::uint64_t>
      alias_guids;  // GUIDInfo from entry 1 on; empty until a manager sets one.
  bool is_led_on = false;
  std::uint32_t reregistrations = 0;  // Times that a manager has asked for them.
  TimeNs m_key_lease_end = kNever;    // kNever: the lease does not run.
};

/// A node as its SMA keeps it. The tables are elsewhere (node_tables.h).
struct SubnetNode {
  wire::NodeInfo info;  // `port_guid` and `local_port` follow the port that is asked.
  wire::NodeDescription description;
  std::optional<wire::SwitchInfo> switch_info;
  /// By port number. Port 0 is a switch's; other nodes have none, and an unused entry.
  std::vector<SubnetPort> ports;

  bool is_switch() const { return switch_info.has_value(); }
  /// The port that has the LID, keys and counters by which `port` is managed (IBA 14.2.5.6).
  SubnetPort& management_port(std::uint8_t port) { return ports[is_switch() ? 0 : port]; }
  const SubnetPort& management_port(std::uint8_t port) const {
    return ports[is_switch() ? 0 : port];
  }
};

}  // namespace verbatim::mad

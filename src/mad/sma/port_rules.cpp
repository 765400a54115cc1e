#include "mad/sma/port_rules.h"

#include "base/net/path.h"

namespace verbatim::mad {
namespace {

using wire::PhysicalState;
using wire::PortInfo;
using wire::PortState;

constexpr std::uint16_t kUnicastLidsEnd = 0xc000;

bool is_unicast(Lid lid) { return raw(lid) != 0 && raw(lid) < kUnicastLidsEnd; }

/// Who the port is, and who manages it. A LID of 0 cannot be given, as cards refuse it, too.
bool set_identity(PortInfo& port, const PortInfo& wanted) {
  if (!is_unicast(wanted.lid) || !is_unicast(wanted.sm_lid)) return false;
  port.m_key = wanted.m_key;
  port.gid_prefix = wanted.gid_prefix;
  port.lid = wanted.lid;
  port.lmc = wanted.lmc;
  port.sm_lid = wanted.sm_lid;
  port.sm_service_level = wanted.sm_service_level;
  port.m_key_lease_period_s = wanted.m_key_lease_period_s;
  port.m_key_protect = wanted.m_key_protect;
  port.subnet_timeout = wanted.subnet_timeout;
  // Violations can be cleared, not set.
  if (wanted.m_key_violations == 0) port.m_key_violations = 0;
  if (wanted.p_key_violations == 0) port.p_key_violations = 0;
  if (wanted.q_key_violations == 0) port.q_key_violations = 0;
  return true;
}

/// A mask of which 0 means no change, and `all` all that is supported.
bool set_enabled(std::uint8_t& enabled, std::uint8_t wanted, std::uint8_t supported,
                 std::uint8_t all) {
  if (wanted == 0) return true;
  if (wanted == all) wanted = supported;
  if ((wanted & ~supported) != 0) return false;
  enabled = wanted;
  return true;
}

bool set_enabled_rates(PortInfo& port, const PortInfo& wanted) {
  constexpr std::uint8_t kNoExtendedSpeed = 30;
  const bool speeds_are_valid =
      set_enabled(port.width_enabled, wanted.width_enabled, port.width_supported, 255) &&
      set_enabled(port.speed_enabled, wanted.speed_enabled, port.speed_supported, 15) &&
      set_enabled(port.speed_extended2_enabled, wanted.speed_extended2_enabled,
                  port.speed_extended2_supported, 7);
  if (!speeds_are_valid) return false;
  if (wanted.speed_extended_enabled == kNoExtendedSpeed) {
    port.speed_extended_enabled = kNoExtendedSpeed;
    return true;
  }
  return set_enabled(port.speed_extended_enabled, wanted.speed_extended_enabled,
                     port.speed_extended_supported, 31);
}

bool set_link(PortInfo& port, const PortInfo& wanted) {
  if (!set_enabled_rates(port, wanted)) return false;
  if (raw(wanted.neighbor_mtu) == 0 || wanted.neighbor_mtu > port.mtu_cap) return false;
  port.neighbor_mtu = wanted.neighbor_mtu;
  if (wanted.operational_vls > port.vl_cap) return false;
  if (wanted.operational_vls != wire::VirtualLanes::no_change) {
    port.operational_vls = wanted.operational_vls;
  }
  if (wanted.link_down_default_state > PhysicalState::polling) return false;
  if (wanted.link_down_default_state != PhysicalState::no_change) {
    port.link_down_default_state = wanted.link_down_default_state;
  }
  port.vl_high_limit = wanted.vl_high_limit;
  port.local_physical_errors = wanted.local_physical_errors;
  port.overrun_errors = wanted.overrun_errors;
  return true;
}

void set_switch_port(PortInfo& port, const PortInfo& wanted) {
  port.head_of_queue_life = wanted.head_of_queue_life;
  port.vl_stall_count = wanted.vl_stall_count;
  port.partition_enforcement_inbound = wanted.partition_enforcement_inbound;
  port.partition_enforcement_outbound = wanted.partition_enforcement_outbound;
  port.filter_raw_inbound = wanted.filter_raw_inbound;
  port.filter_raw_outbound = wanted.filter_raw_outbound;
}

void take_down(PortChange& change, PhysicalState physical) {
  change.drops_link = true;
  change.info.state = PortState::down;
  change.info.physical_state = physical;
}

/// A physical state can be asked for where the port is to be down, or nothing is said of its state;
/// else only the next step towards Active is allowed.
bool set_state(PortChange& change, const PortInfo& wanted) {
  PortInfo& port = change.info;
  const bool may_go_down = wanted.state == PortState::no_change || wanted.state == PortState::down;
  if (may_go_down && wanted.physical_state != PhysicalState::no_change) {
    if (wanted.physical_state > PhysicalState::disabled) return false;
    take_down(change, wanted.physical_state);
    return true;
  }
  switch (wanted.state) {
    case PortState::no_change:
      return true;
    case PortState::down:
      // A port that is disabled stays so until its physical state is set.
      if (port.physical_state != PhysicalState::disabled) {
        take_down(change, port.link_down_default_state);
      }
      return true;
    case PortState::armed:
      if (port.state != PortState::initialize) return false;
      break;
    case PortState::active:
      if (port.state != PortState::armed) return false;
      break;
    default:
      return false;
  }
  port.state = wanted.state;
  return true;
}

}  // namespace

std::expected<PortChange, wire::MadStatus> apply(const PortInfo& current, const PortInfo& wanted,
                                                 PortRole role) {
  PortChange change{.info = current};
  bool is_valid = role == PortRole::switch_external || set_identity(change.info, wanted);
  if (role != PortRole::switch_port_0) {
    is_valid = is_valid && set_link(change.info, wanted) && set_state(change, wanted);
  }
  if (!is_valid) return std::unexpected(wire::MadStatus::invalid_value);
  if (role == PortRole::switch_external) set_switch_port(change.info, wanted);
  return change;
}

}  // namespace verbatim::mad

#include "mad/sma/subnet_agent.h"

#include <utility>

#include "mad/sma/notices.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::mad {

using wire::MadMethod;
using wire::MadStatus;
using wire::PhysicalState;
using wire::PortInfo;
using wire::PortState;
using wire::Smp;
using wire::SubnetAttribute;

namespace {

/// Responses, and what only a manager is told.
bool is_for_software(MadMethod method) {
  constexpr std::uint8_t kResponseBit = 0x80;
  return (raw(method) & kResponseBit) != 0 || method == MadMethod::trap ||
         method == MadMethod::report;
}

}  // namespace

SubnetAgent::SubnetAgent(SubnetNode node, NodeTables& tables, std::uint64_t first_trap_transaction)
    : node_(std::move(node)), tables_(tables), traps_(first_trap_transaction) {
  if (node_.switch_info) tables_.set_switch(*node_.switch_info);
  for (std::size_t port = node_.is_switch() ? 0 : 1; port < node_.ports.size(); ++port) {
    tables_.set_port(static_cast<unsigned>(port), node_.ports[port].info);
  }
}

SubnetAgent::Verdict SubnetAgent::on_smp(const SmpSource& source, Smp& smp, TimeNs now,
                                         SubnetEffects& out) {
  // The key of a subnet manager protects its own attribute, and it checks M_Keys by itself.
  if (is_for_software(smp.method) || smp.attribute == SubnetAttribute::sm_info) {
    return Verdict::software;
  }
  SubnetPort& port = node_.management_port(source.port);
  const MKeyAccess access = m_key_access(port.info, smp.method, smp.m_key);
  if (access == MKeyAccess::refused) {
    on_m_key_violation(port, now);
    raise(source.port, bad_m_key_notice(node_, source.port, smp, source.lid), now, out);
    return Verdict::drop;
  }
  if (access == MKeyAccess::holder && port.m_key_lease_end != kNever) {
    port.m_key_lease_end = kNever;
    out.has_new_deadline = true;
  }
  if (smp.method == MadMethod::trap_repress) {
    if (!traps_.end(smp.transaction)) return Verdict::software;
    out.has_new_deadline = true;
    return Verdict::drop;
  }
  answer(source, smp, access, out);
  return Verdict::answer;
}

/// The answer to a Set has what the node now has.
void SubnetAgent::answer(const SmpSource& source, Smp& smp, MKeyAccess access, SubnetEffects& out) {
  const bool is_set = smp.method == MadMethod::set;
  const bool is_port_info = smp.attribute == SubnetAttribute::port_info;
  const bool reregisters = is_set && is_port_info && wire::data_as<PortInfo>(smp).client_reregister;
  const bool hides_key = hides_m_key(node_.management_port(source.port).info, access);
  if (is_set || smp.method == MadMethod::get) {
    smp.status = is_set ? set(source.port, smp, out) : MadStatus::ok;
    const MadStatus read = get(source.port, smp);
    if (smp.status == MadStatus::ok) smp.status = read;
  } else {
    smp.status = MadStatus::unsupported_method;
  }
  smp.method = MadMethod::get_response;
  if (is_port_info && smp.status == MadStatus::ok && (reregisters || hides_key)) {
    auto info = wire::data_as<PortInfo>(smp);
    if (reregisters) info.client_reregister = true;  // IBA o14-12.2.1.
    if (hides_key) info.m_key = 0;
    wire::set_data(smp, info);
  }
}

MadStatus SubnetAgent::get(std::uint8_t arrival, Smp& smp) const {
  switch (smp.attribute) {
    case SubnetAttribute::node_description:
      wire::set_data(smp, node_.description);
      return Status::ok;
    case SubnetAttribute::node_info:
      wire::set_data(smp, node_info(arrival));
      return Status::ok;
    case SubnetAttribute::switch_info:
      if (!node_.is_switch()) return Status::unsupported_attribute;
      wire::set_data(smp, *node_.switch_info);
      return Status::ok;
    case SubnetAttribute::led_info:
      wire::set_data(smp, wire::LedInfo{.is_on = node_.management_port(arrival).is_led_on});
      return Status::ok;
    case SubnetAttribute::port_info:
      return get_port_info(arrival, smp);
    case SubnetAttribute::port_info_extended:
      // Its CapabilityMask is 0: no error correction can be chosen.
      smp.data.fill(std::byte{0});
      return named_port(arrival, wire::modifier_as<wire::PortInfoModifier>(smp.modifier).port)
                 ? Status::ok
                 : Status::invalid_value;
    case SubnetAttribute::mellanox_extended_port_info:
      return get_mellanox_port_info(arrival, smp);
    default:
      return get_table(arrival, smp);
  }
}

MadStatus SubnetAgent::set(std::uint8_t arrival, const Smp& smp, SubnetEffects& out) {
  switch (smp.attribute) {
    case SubnetAttribute::node_info:
    case SubnetAttribute::port_info_extended:
      return Status::unsupported_attribute;
    case SubnetAttribute::node_description:
      return set_node_description(arrival, smp, out);
    case SubnetAttribute::switch_info:
      return set_switch_info(smp);
    case SubnetAttribute::led_info:
      node_.management_port(arrival).is_led_on = wire::data_as<wire::LedInfo>(smp).is_on;
      return Status::ok;
    case SubnetAttribute::port_info:
      return set_port_info(arrival, smp, out);
    case SubnetAttribute::mellanox_extended_port_info:
      return set_mellanox_port_info(arrival, smp);
    default:
      return set_table(arrival, smp, out);
  }
}

wire::NodeInfo SubnetAgent::node_info(std::uint8_t port) const {
  wire::NodeInfo info = node_.info;
  info.port_guid = node_.management_port(port).guid;
  info.local_port = port;
  return info;
}

MadStatus SubnetAgent::set_node_description(std::uint8_t arrival, const Smp& smp,
                                            SubnetEffects& out) {
  node_.description = wire::data_as<wire::NodeDescription>(smp);
  out.changed_port = arrival;
  return Status::ok;
}

MadStatus SubnetAgent::set_switch_info(const Smp& smp) {
  if (!node_.is_switch()) return Status::unsupported_attribute;
  const auto wanted = wire::data_as<wire::SwitchInfo>(smp);
  wire::SwitchInfo& info = *node_.switch_info;
  if (wanted.linear_forwarding_top >= info.linear_forwarding_cap) return Status::invalid_value;
  info.linear_forwarding_top = wanted.linear_forwarding_top;
  info.default_port = wanted.default_port;
  info.default_multicast_primary_port = wanted.default_multicast_primary_port;
  info.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
  info.lifetime = wanted.lifetime;
  if (wanted.port_state_change) info.port_state_change = false;  // Writing 1 clears it.
  tables_.set_switch(info);
  return Status::ok;
}

std::optional<std::uint8_t> SubnetAgent::named_port(std::uint8_t arrival,
                                                    std::uint32_t number) const {
  if (number == 0 && !node_.is_switch()) return arrival;
  if (number > node_.info.ports) return std::nullopt;
  return static_cast<std::uint8_t>(number);
}

PortRole SubnetAgent::role_of(std::uint8_t port) const {
  if (!node_.is_switch()) return PortRole::adapter;
  return port == 0 ? PortRole::switch_port_0 : PortRole::switch_external;
}

MadStatus SubnetAgent::get_port_info(std::uint8_t arrival, Smp& smp) const {
  const auto modifier = wire::modifier_as<wire::PortInfoModifier>(smp.modifier);
  const auto port = named_port(arrival, modifier.port);
  if (!port) return Status::invalid_value;
  PortInfo info = node_.ports[*port].info;
  info.local_port = arrival;
  if (!modifier.knows_extended_speeds && hides_extended_speeds(info)) {
    info.speed_extended_active = info.speed_extended_supported = info.speed_extended_enabled = 0;
    info.speed_extended2_active = info.speed_extended2_supported = info.speed_extended2_enabled = 0;
  }
  wire::set_data(smp, info);
  return Status::ok;
}

/// Switches of NDR and faster show extended speeds only to who says that it knows them, as the
/// modifier's highest bit means it (IBA 14.2.5.6); slower ones, and adapters, always.
bool SubnetAgent::hides_extended_speeds(const PortInfo& port) const {
  const bool is_ndr = port.speed_extended_supported >= wire::codes_of(LinkSpeed::ndr).extended ||
                      port.speed_extended2_supported != 0;
  return node_.is_switch() && is_ndr;
}

/// Of Mellanox's devices alone: whether the link runs, or could run, with FDR10.
MadStatus SubnetAgent::get_mellanox_port_info(std::uint8_t arrival, Smp& smp) const {
  if (node_.info.vendor_id != wire::MellanoxExtendedPortInfo::kVendor) {
    return Status::unsupported_attribute;
  }
  const auto port = named_port(arrival, smp.modifier);
  if (!port) return Status::invalid_value;
  wire::set_data(smp, node_.ports[*port].mellanox);
  return Status::ok;
}

/// A link's use of FDR10 follows from its cable: what would change it is refused.
MadStatus SubnetAgent::set_mellanox_port_info(std::uint8_t arrival, const Smp& smp) const {
  Smp read = smp;
  const MadStatus status = get_mellanox_port_info(arrival, read);
  if (status != Status::ok) return status;
  const auto wanted = wire::data_as<wire::MellanoxExtendedPortInfo>(smp).speed_enabled;
  const auto enabled = wire::data_as<wire::MellanoxExtendedPortInfo>(read).speed_enabled;
  return wanted == enabled ? Status::ok : Status::invalid_value;
}

MadStatus SubnetAgent::set_port_info(std::uint8_t arrival, const Smp& smp, SubnetEffects& out) {
  const auto port =
      named_port(arrival, wire::modifier_as<wire::PortInfoModifier>(smp.modifier).port);
  // An adapter's other ports may be of another subnet, whose manager alone may write them.
  if (!port || (!node_.is_switch() && *port != arrival)) return Status::invalid_value;
  const auto wanted = wire::data_as<PortInfo>(smp);
  const auto change = apply(node_.ports[*port].info, wanted, role_of(*port));
  if (!change) return change.error();
  if (change->drops_link) out.dropped_link = *port;
  if (wanted.client_reregister) {
    ++node_.ports[*port].reregistrations;
    out.changed_port = *port;
  }
  commit(*port, change->info, out);
  return Status::ok;
}

void SubnetAgent::commit(std::uint8_t port, const PortInfo& info, SubnetEffects& out) {
  PortInfo& current = node_.ports[port].info;
  if (current == info) return;
  current = info;
  tables_.set_port(port, info);
  out.changed_port = port;
}

/// A manager that looks at switches alone learns by the bit where to look again.
void SubnetAgent::commit_link(std::uint8_t port, const PortInfo& info, TimeNs now,
                              SubnetEffects& out) {
  commit(port, info, out);
  if (!node_.is_switch()) return;
  node_.switch_info->port_state_change = true;
  tables_.set_switch(*node_.switch_info);
  raise(0, link_state_notice(node_), now, out);
}

void SubnetAgent::on_link_up(std::uint8_t port, LinkWidth width, LinkSpeed speed, TimeNs now,
                             SubnetEffects& out) {
  PortInfo info = node_.ports[port].info;
  info.state = PortState::initialize;
  info.physical_state = PhysicalState::link_up;
  info.width_active = width;
  wire::set_active_speed(info, speed);
  node_.ports[port].mellanox = wire::mellanox_port_info(info, speed);
  commit_link(port, info, now, out);
}

void SubnetAgent::on_link_down(std::uint8_t port, TimeNs now, SubnetEffects& out) {
  PortInfo info = node_.ports[port].info;
  if (info.state == PortState::down) return;
  info.state = PortState::down;
  info.physical_state = info.link_down_default_state;
  commit_link(port, info, now, out);
}

}  // namespace verbatim::mad

#include "mad/sma/subnet_agent.h"

#include <utility>

#include "wire/subnet/link_speed.h"

namespace verbatim::mad {

using wire::MadMethod;
using wire::MadStatus;
using wire::PhysicalState;
using wire::PortInfo;
using wire::PortState;
using wire::Smp;
using wire::SubnetAttribute;

SubnetAgent::SubnetAgent(SubnetNode node, NodeTables& tables)
    : node_(std::move(node)), tables_(tables) {
  if (node_.switch_info) tables_.set_switch(*node_.switch_info);
  for (std::size_t port = node_.is_switch() ? 0 : 1; port < node_.ports.size(); ++port) {
    tables_.set_port(static_cast<unsigned>(port), node_.ports[port].info);
  }
}

SubnetAgent::Verdict SubnetAgent::on_smp(std::uint8_t port, Smp& smp, TimeNs /*now*/,
                                         SubnetEffects& out) {
  const bool is_request = smp.method == MadMethod::get || smp.method == MadMethod::set;
  if (!is_request || smp.attribute == SubnetAttribute::sm_info) return Verdict::software;

  const bool reregisters = smp.method == MadMethod::set &&
                           smp.attribute == SubnetAttribute::port_info &&
                           wire::data_as<PortInfo>(smp).client_reregister;
  smp.status = smp.method == MadMethod::set ? set(port, smp, out) : MadStatus::ok;
  smp.method = MadMethod::get_response;
  // The answer to a Set has what the node now has.
  const MadStatus read = get(port, smp);
  if (smp.status == MadStatus::ok) smp.status = read;
  if (reregisters && read == MadStatus::ok) {
    auto info = wire::data_as<PortInfo>(smp);  // IBA o14-12.2.1.
    info.client_reregister = true;
    wire::set_data(smp, info);
  }
  return Verdict::answer;
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
    default:
      return get_table(arrival, smp);
  }
}

MadStatus SubnetAgent::set(std::uint8_t arrival, const Smp& smp, SubnetEffects& out) {
  switch (smp.attribute) {
    case SubnetAttribute::node_info:
      return Status::unsupported_attribute;
    case SubnetAttribute::node_description:
      return set_node_description(smp);
    case SubnetAttribute::switch_info:
      return set_switch_info(smp);
    case SubnetAttribute::led_info:
      node_.management_port(arrival).is_led_on = wire::data_as<wire::LedInfo>(smp).is_on;
      return Status::ok;
    case SubnetAttribute::port_info:
      return set_port_info(arrival, smp, out);
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

MadStatus SubnetAgent::set_node_description(const Smp& smp) {
  node_.description = wire::data_as<wire::NodeDescription>(smp);
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
  const auto port =
      named_port(arrival, wire::modifier_as<wire::PortInfoModifier>(smp.modifier).port);
  if (!port) return Status::invalid_value;
  PortInfo info = node_.ports[*port].info;
  info.local_port = arrival;
  wire::set_data(smp, info);
  return Status::ok;
}

MadStatus SubnetAgent::set_port_info(std::uint8_t arrival, const Smp& smp, SubnetEffects& out) {
  const auto port =
      named_port(arrival, wire::modifier_as<wire::PortInfoModifier>(smp.modifier).port);
  // An adapter's other ports may be of another subnet, whose manager alone may write them.
  if (!port || (!node_.is_switch() && *port != arrival)) return Status::invalid_value;
  const auto change = apply(node_.ports[*port].info, wire::data_as<PortInfo>(smp), role_of(*port));
  if (!change) return change.error();
  if (change->drops_link) out.dropped_link = *port;
  commit(*port, change->info, out);
  return Status::ok;
}

void SubnetAgent::commit(std::uint8_t port, const PortInfo& info, SubnetEffects& out) {
  PortInfo& current = node_.ports[port].info;
  if (current == info) return;
  // A manager that only looks at switches learns by this bit where to look.
  if (current.state != info.state && node_.is_switch()) {
    const bool is_news = info.state == PortState::down || current.state == PortState::down;
    node_.switch_info->port_state_change |= is_news;
  }
  current = info;
  tables_.set_port(port, info);
  out.changed_port = port;
}

void SubnetAgent::on_link_up(std::uint8_t port, LinkWidth width, LinkSpeed speed,
                             SubnetEffects& out) {
  PortInfo info = node_.ports[port].info;
  info.state = PortState::initialize;
  info.physical_state = PhysicalState::link_up;
  info.width_active = width;
  wire::set_active_speed(info, speed);
  commit(port, info, out);
}

void SubnetAgent::on_link_down(std::uint8_t port, SubnetEffects& out) {
  PortInfo info = node_.ports[port].info;
  if (info.state == PortState::down) return;
  info.state = PortState::down;
  info.physical_state = info.link_down_default_state;
  commit(port, info, out);
}

bool SubnetAgent::set_is_sm(std::uint8_t port, bool is_sm, SubnetEffects& out) {
  PortInfo info = node_.management_port(port).info;
  if (((info.capabilities & wire::port_capability::kIsSm) != 0) == is_sm) return false;
  info.capabilities ^= wire::port_capability::kIsSm;
  commit(node_.is_switch() ? 0 : port, info, out);
  return true;
}

}  // namespace verbatim::mad

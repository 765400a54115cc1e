#include "fabric/management/management_net.h"

#include <utility>

#include "fabric/management/initial_node.h"
#include "fabric/management/training.h"
#include "mad/sma/plain_tables.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kNoLink = 0xffff'ffff;
/// Of an emulated link; real ones take from milliseconds to seconds.
constexpr TimeNs kTrainingTime = 10 * kMillisecond;

/// Transaction ids of the traps of each node begin elsewhere (SplitMix64).
std::uint64_t first_transaction(std::uint64_t seed, std::size_t node) {
  std::uint64_t z = seed + (node + 1) * 0x9e37'79b9'7f4a'7c15;
  z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
  return z ^ z >> 31;
}

}  // namespace

ManagementNet::ManagementNet(const Topology& topology, HostSoftware& software, std::uint64_t seed,
                             const MakeTables& make_tables)
    : topology_(topology), software_(software) {
  links_.reserve(topology.links.size());
  for (const Link& link : topology.links) {
    const Rate rate{link.width, link.speed};
    links_.push_back({.rate = rate, .active = rate});
  }
  const std::size_t nodes = topology.nodes.size();
  // Agents refer to each other's elements: none may move.
  agents_.reserve(nodes);
  counts_.reserve(nodes);
  performance_agents_.reserve(nodes);
  std::size_t ports = 0;
  for (mad::SubnetNode& node : initial_nodes(topology)) {
    const std::uint8_t last_port = node.info.ports;
    const std::uint8_t first_port = node.is_switch() ? 0 : 1;
    const bool relays = topology.nodes[agents_.size()].kind != NodeKind::adapter;
    counts_.emplace_back(agents_.size(), node.ports.size(), relays, data_counters_);
    performance_agents_.emplace_back(first_port, last_port, counts_.back());
    tables_.push_back(make_tables
                          ? make_tables(static_cast<std::uint32_t>(tables_.size()))
                          : std::make_unique<mad::PlainTables>(last_port, node.is_switch()));
    first_ports_.push_back(ports);
    ports += node.ports.size();
    const auto transaction = first_transaction(seed, agents_.size());
    agents_.emplace_back(std::move(node), *tables_.back(), transaction);
  }
  links_of_ports_.assign(ports, kNoLink);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::uint8_t last = topology.nodes[node].ports;
    for (unsigned port = 1; topology.nodes[node].kind == NodeKind::adapter && port <= last;
         ++port) {
      const auto number = static_cast<std::uint8_t>(port);
      ports_by_guid_[identity_of(topology.nodes[node], port).guid] = {node, number};
    }
  }
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    for (const PortPlace end : {topology.links[link].a, topology.links[link].b}) {
      links_of_ports_[first_ports_[end.node] + end.port] = link;
    }
    train(link, 0);
  }
  changes_.clear();  // The software reads how the ports are now.
  for (mad::SubnetAgent& agent : agents_) agent.take_trap(0);  // No manager awaits them: dropped.
}

std::uint32_t ManagementNet::reregistrations(PortPlace port) const {
  return agents_[port.node].node().ports[port.port].reregistrations;
}

const wire::PortInfo& ManagementNet::port_info(PortPlace port) const {
  return agents_[port.node].node().ports[port.port].info;
}

wire::NodeInfo ManagementNet::node_info(PortPlace port) const {
  return agents_[port.node].node_info(port.port);
}

const wire::NodeDescription& ManagementNet::node_description(PortPlace port) const {
  return agents_[port.node].node().description;
}

void ManagementNet::set_node_description(std::uint32_t node, std::string_view text, TimeNs now) {
  mad::SubnetEffects effects;
  agents_[node].set_description(wire::node_description(text), now, effects);
  changes_.push_back({node, effects});
  settle(now);
}

std::span<const std::uint16_t> ManagementNet::pkeys(PortPlace port) const {
  return tables_[port.node]->p_keys(port.port);
}

std::vector<std::uint64_t> ManagementNet::guids(PortPlace port) const {
  const mad::SubnetPort& found = agents_[port.node].node().management_port(port.port);
  std::vector<std::uint64_t> guids{found.guid};
  guids.insert(guids.end(), found.alias_guids.begin(), found.alias_guids.end());
  return guids;
}

bool ManagementNet::set_capability(PortPlace port, std::uint32_t capability, bool has_it,
                                   TimeNs now) {
  mad::SubnetEffects effects;
  if (!agents_[port.node].set_capability(port.port, capability, has_it, now, effects)) {
    return false;
  }
  changes_.push_back({port.node, effects});
  settle(now);
  return true;
}

void ManagementNet::on_bad_key(PortPlace port, wire::TrapNumber trap,
                               const wire::BadKeyDetails& last, unsigned count, TimeNs now) {
  mad::SubnetEffects effects;
  agents_[port.node].on_bad_key(port.port, trap, last, now, effects, count);
  changes_.push_back({port.node, effects});
  settle(now);
}

void ManagementNet::on_link_integrity_error(PortPlace port, TimeNs now) {
  tell_link_integrity_error(port, now);
  settle(now);
}

void ManagementNet::tell_link_integrity_error(PortPlace port, TimeNs now) {
  mad::SubnetEffects effects;
  agents_[port.node].on_link_integrity_error(port.port, now, effects);
  changes_.push_back({port.node, effects});
}

std::uint32_t ManagementNet::link_of(PortPlace port) const {
  return links_of_ports_[first_ports_[port.node] + port.port];
}

void ManagementNet::set_link(std::uint32_t link, bool up, TimeNs now) {
  if (links_[link].has_cable == up) return;
  links_[link].has_cable = up;
  take_down(link, now);
  settle(now);
}

void ManagementNet::set_cable_rate(std::uint32_t link, Rate rate, TimeNs now) {
  if (links_[link].rate == rate) return;
  links_[link].rate = rate;
  take_down(link, now);
  settle(now);
}

void ManagementNet::set_bit_error_rate(std::uint32_t link, double rate) {
  links_[link].bit_error_rate = rate;
  links_[link].bit_errors = BitErrors(rate, link);
}

void ManagementNet::take_down(std::uint32_t link, TimeNs now) {
  const bool was_up = std::exchange(links_[link].is_up, false);
  for (const PortPlace end : {topology_.links[link].a, topology_.links[link].b}) {
    if (was_up) ++counts_[end.node].of(end.port).link_downed;
    mad::SubnetEffects effects;
    agents_[end.node].on_link_down(end.port, now, effects);
    changes_.push_back({end.node, effects});
  }
  deadlines_.set(link, links_[link].has_cable ? now + kTrainingTime : kNever);
}

void ManagementNet::train(std::uint32_t link, TimeNs now) {
  const Link& cable = topology_.links[link];
  const auto rate = trained_rate(links_[link].rate, port_info(cable.a), port_info(cable.b));
  if (!rate) return;
  links_[link].is_up = true;
  links_[link].active = *rate;
  for (const PortPlace end : {cable.a, cable.b}) {
    mad::SubnetEffects effects;
    agents_[end.node].on_link_up(end.port, rate->width, rate->speed, now, effects);
    changes_.push_back({end.node, effects});
  }
}

void ManagementNet::on_time(TimeNs now) {
  while (const auto waiter = deadlines_.take_due(now)) {
    if (*waiter < links_.size()) {
      train(*waiter, now);
      continue;
    }
    const auto node = static_cast<std::uint32_t>(*waiter - links_.size());
    mad::SubnetEffects effects{.has_new_deadline = true};
    agents_[node].on_time(now, effects);
    changes_.push_back({node, effects});
    settle(now);
  }
  settle(now);
}

void ManagementNet::settle(TimeNs now) {
  while (!changes_.empty()) {
    const auto [node, effects] = changes_.back();
    changes_.pop_back();
    if (effects.dropped_link) {
      const PortPlace port{node, *effects.dropped_link};
      const std::uint32_t link = link_of(port);
      if (link != kNoLink) take_down(link, now);
      take_trunk_down(port, now);
    }
    if (effects.changed_port && trunks_.contains({node, *effects.changed_port})) {
      carrier_->on_trunk_changed({node, *effects.changed_port});
    }
    if (effects.changed_port && !is_switch(node)) {
      software_.on_port_changed({node, *effects.changed_port});
    }
    if (effects.has_new_deadline) send_traps(node, now);
  }
}

void ManagementNet::send_traps(std::uint32_t node, TimeNs now) {
  while (const auto trap = agents_[node].take_trap(now)) {
    Packet packet{.datagram = {.path = trap->path}, .smp = trap->smp};
    const PortPlace from{node, is_switch(node) ? std::uint8_t{0} : trap->port};
    walk(packet, route_by_lid(packet, from, now), now);
  }
  deadlines_.set(waiter_of_node(node), agents_[node].deadline());
}

}  // namespace verbatim::fabric

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

}  // namespace

ManagementNet::ManagementNet(const Topology& topology, HostSoftware& software,
                             std::uint64_t /*seed*/)
    : topology_(topology), software_(software), links_(topology.links.size()) {
  agents_.reserve(topology.nodes.size());
  std::size_t ports = 0;
  for (mad::SubnetNode& node : initial_nodes(topology)) {
    tables_.push_back(std::make_unique<mad::PlainTables>(node.info.ports, node.is_switch()));
    first_ports_.push_back(ports);
    ports += node.ports.size();
    agents_.emplace_back(std::move(node), *tables_.back());
  }
  links_of_ports_.assign(ports, kNoLink);
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    for (const PortPlace end : {topology.links[link].a, topology.links[link].b}) {
      links_of_ports_[first_ports_[end.node] + end.port] = link;
    }
    train(link);
  }
  changes_.clear();  // The software reads how the ports are now.
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

std::span<const std::uint16_t> ManagementNet::pkeys(PortPlace port) const {
  return tables_[port.node]->p_keys(port.port);
}

std::vector<std::uint64_t> ManagementNet::guids(PortPlace port) const {
  const mad::SubnetPort& found = agents_[port.node].node().management_port(port.port);
  std::vector<std::uint64_t> guids{found.guid};
  guids.insert(guids.end(), found.alias_guids.begin(), found.alias_guids.end());
  return guids;
}

bool ManagementNet::set_is_sm(PortPlace port, bool is_sm, TimeNs now) {
  mad::SubnetEffects effects;
  if (!agents_[port.node].set_is_sm(port.port, is_sm, effects)) return false;
  changes_.push_back({port.node, effects});
  settle(now);
  return true;
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

void ManagementNet::take_down(std::uint32_t link, TimeNs now) {
  links_[link].is_up = false;
  for (const PortPlace end : {topology_.links[link].a, topology_.links[link].b}) {
    mad::SubnetEffects effects;
    agents_[end.node].on_link_down(end.port, effects);
    changes_.push_back({end.node, effects});
  }
  deadlines_.set(link, links_[link].has_cable ? now + kTrainingTime : kNever);
}

void ManagementNet::train(std::uint32_t link) {
  const auto& [a, b, width, speed, length] = topology_.links[link];
  const auto rate = trained_rate(topology_.links[link], port_info(a), port_info(b));
  if (!rate) return;
  links_[link].is_up = true;
  for (const PortPlace end : {a, b}) {
    mad::SubnetEffects effects;
    agents_[end.node].on_link_up(end.port, rate->width, rate->speed, effects);
    changes_.push_back({end.node, effects});
  }
}

void ManagementNet::on_time(TimeNs now) {
  while (const auto link = deadlines_.take_due(now)) train(*link);
  settle(now);
}

void ManagementNet::settle(TimeNs now) {
  while (!changes_.empty()) {
    const auto [node, effects] = changes_.back();
    changes_.pop_back();
    if (effects.dropped_link) {
      const std::uint32_t link = link_of({node, *effects.dropped_link});
      if (link != kNoLink) take_down(link, now);
    }
    if (effects.changed_port && !is_switch(node)) {
      software_.on_port_changed({node, *effects.changed_port});
    }
  }
}

}  // namespace verbatim::fabric

#include "fabric/check/snapshot.h"

#include <map>
#include <utility>

#include <fmt/format.h>

namespace verbatim::fabric {

Cables::Cables(const Snapshot& snapshot) : snapshot_(snapshot) {
  for (const NodeSnapshot& node : snapshot.nodes) directions_.emplace_back(node.ports.size());
  for (std::uint32_t i = 0; i < snapshot.cables.size(); ++i) {
    const CableSnapshot& cable = snapshot.cables[i];
    if (!cable.is_active) continue;
    directions_[cable.a.node][cable.a.port] = 2 * i;
    directions_[cable.b.node][cable.b.port] = 2 * i + 1;
  }
}

Subnets ports_by_subnet(const Snapshot& snapshot) {
  std::vector<bool> is_switch;
  for (const NodeSnapshot& node : snapshot.nodes) is_switch.push_back(node.is_switch());
  Subnets subnets(std::move(is_switch));
  for (const CableSnapshot& cable : snapshot.cables) subnets.connect(cable.a, cable.b);
  return subnets;
}

std::vector<Snapshot> subnets_of(const Snapshot& snapshot) {
  const Subnets subnets = ports_by_subnet(snapshot);
  std::map<PortPlace, Snapshot> found;  // By the subnet's lowest port.
  const auto subnet_of = [&](PortPlace port) -> Snapshot& {
    const auto [subnet, is_new] = found.try_emplace(subnets.of(port));
    if (is_new) subnet->second.nodes.resize(snapshot.nodes.size());
    return subnet->second;
  };
  for (const CableSnapshot& cable : snapshot.cables) {
    Snapshot& subnet = subnet_of(cable.a);
    subnet.cables.push_back(cable);
    for (const PortPlace end : {cable.a, cable.b})
      subnet.nodes[end.node] = snapshot.nodes[end.node];
  }
  for (std::uint32_t i = 0; i < snapshot.nodes.size(); ++i) {
    if (snapshot.nodes[i].is_switch()) subnet_of({i, 0}).nodes[i] = snapshot.nodes[i];
  }
  std::vector<Snapshot> all;
  for (auto& [port, subnet] : found) all.push_back(std::move(subnet));
  return all;
}

std::optional<Direction> Cables::leaving(PortPlace port) const {
  const auto& ports = directions_[port.node];
  return port.port < ports.size() ? ports[port.port] : std::nullopt;
}

PortPlace Cables::start(Direction direction) const {
  const CableSnapshot& cable = snapshot_.cables[direction / 2];
  return direction % 2 == 0 ? cable.a : cable.b;
}

std::vector<Direction> sources(const Snapshot& snapshot) {
  std::vector<Direction> found;
  for (std::uint32_t i = 0; i < snapshot.cables.size(); ++i) {
    const CableSnapshot& cable = snapshot.cables[i];
    for (const bool is_b : {false, true}) {
      const PortPlace port = is_b ? cable.b : cable.a;
      const NodeSnapshot& node = snapshot.nodes[port.node];
      if (!cable.is_active || node.is_switch() || node.ports[port.port].lid == 0) continue;
      found.push_back(2 * i + (is_b ? 1 : 0));
    }
  }
  return found;
}

std::vector<Destination> destinations(const Snapshot& snapshot, bool with_switches) {
  std::vector<Destination> found;
  const auto add = [&](PortPlace place) {
    const PortSnapshot& port = snapshot.nodes[place.node].ports[place.port];
    for (unsigned i = 0; port.lid != 0 && i < 1U << port.lmc; ++i) {
      found.push_back({place, static_cast<std::uint16_t>(port.lid + i)});
    }
  };
  const Cables cables(snapshot);
  for (const Direction source : sources(snapshot)) add(cables.start(source));
  for (std::uint32_t i = 0; with_switches && i < snapshot.nodes.size(); ++i) {
    if (snapshot.nodes[i].is_switch()) add({i, 0});
  }
  return found;
}

std::string text_of(const Snapshot& snapshot, PortPlace port) {
  return fmt::format("{}/{}", snapshot.nodes[port.node].name, port.port);
}

}  // namespace verbatim::fabric

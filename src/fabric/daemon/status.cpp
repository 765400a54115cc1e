#include "fabric/daemon/status.h"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::fabric {
namespace {

using Json = nlohmann::ordered_json;

Json status_of_port(const ManagementNet& net, PortPlace place) {
  const wire::PortInfo& port = net.port_info(place);
  return {{"port", place.port},
          {"guid", fmt::format("{:#018x}", net.node_info(place).port_guid)},
          {"lid", raw(port.lid)},
          {"sm_lid", raw(port.sm_lid)},
          {"state", state_name(port.state)}};
}

Json status_of_node(const ManagementNet& net, std::uint32_t index, const SocketAddress& address) {
  const Node& node = net.topology().nodes[index];
  Json ports = Json::array();
  if (node.kind == NodeKind::switch_node) {
    ports.push_back(status_of_port(net, {index, 0}));
  } else {
    for (unsigned port = 1; port <= node.ports; ++port) {
      ports.push_back(status_of_port(net, {index, static_cast<std::uint8_t>(port)}));
    }
  }
  constexpr std::array kKinds{"host", "switch", "router"};
  Json status = {{"name", printable(node.name)},
                 {"kind", kKinds[raw(node.kind)]},
                 {"guid", fmt::format("{:#018x}", node.guid)},
                 {"physical_ports", node.ports},
                 {"ports", std::move(ports)}};
  if (!address.empty()) status["address"] = address.ip_text();
  return status;
}

Json end_of(const ManagementNet& net, PortPlace place, const DataCounters& counters) {
  const Node& node = net.topology().nodes[place.node];
  mad::PortCounterValues counts;
  counters.add_counters(place, counts);
  return {{"node", printable(node.name)},
          {"guid", fmt::format("{:#018x}", node.guid)},
          {"port", place.port},
          {"state", state_name(net.port_info(place).state)},
          {"transmit_bytes", counts.transmit_data * 4}};
}

}  // namespace

const char* state_name(wire::PortState state) {
  constexpr std::array kNames{"no change", "down", "init", "armed", "active"};
  return raw(state) < kNames.size() ? kNames[raw(state)] : "unknown";
}

std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

Json status_of(const ManagementNet& net, const HostAddresses& addresses,
               const DataCounters& counters) {
  Json nodes = Json::array();
  for (std::uint32_t i = 0; i < net.topology().nodes.size(); ++i) {
    nodes.push_back(status_of_node(net, i, addresses.address_of(i)));
  }
  Json links = Json::array();
  for (const Link& link : net.topology().links) {
    const auto index = static_cast<std::uint32_t>(links.size());
    const Rate rate = net.active_rate(index);
    const Rate cable = net.cable_rate(index);
    links.push_back({{"a", end_of(net, link.a, counters)},
                     {"b", end_of(net, link.b, counters)},
                     {"rate", rate_text(rate.width, rate.speed)},
                     {"cable_rate", rate_text(cable.width, cable.speed)},
                     {"full_rate", rate_text(link.width, link.speed)},
                     {"bit_error_rate", net.bit_error_rate(index)}});
  }
  return {{"nodes", std::move(nodes)}, {"links", std::move(links)}};
}

}  // namespace verbatim::fabric

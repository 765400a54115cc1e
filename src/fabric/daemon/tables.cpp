#include "fabric/daemon/tables.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fabric/daemon/status.h"

namespace verbatim::fabric {
namespace {

using Json = nlohmann::json;

constexpr unsigned kBlockLids = wire::LinearForwardingTable::kEntries;

Json ports_of(const ManagementNet& net, std::uint32_t node, bool is_switch) {
  Json ports = Json::array();
  for (unsigned port = 0; port <= net.topology().nodes[node].ports; ++port) {
    const bool has_lid = is_switch == (port == 0);
    const PortPlace place{node, static_cast<std::uint8_t>(port)};
    const auto keys = has_lid ? net.pkeys(place) : std::span<const std::uint16_t>();
    const bool exists = is_switch || port > 0;
    const auto lanes = exists ? net.port_info(place).operational_vls : wire::VirtualLanes{};
    ports.push_back({{"guid", has_lid ? net.node_info(place).port_guid : 0},
                     {"data_lanes", wire::data_lanes_of(lanes)},
                     {"lid", has_lid ? raw(net.port_info(place).lid) : 0},
                     {"lmc", has_lid ? net.port_info(place).lmc : 0},
                     {"p_keys", std::vector(keys.begin(), keys.end())}});
  }
  return ports;
}

/// One past the highest LID that any port has.
unsigned lids_end(const ManagementNet& net) {
  unsigned end = 0;
  for (std::uint32_t node = 0; node < net.topology().nodes.size(); ++node) {
    for (unsigned port = 0; port <= net.topology().nodes[node].ports; ++port) {
      if (port == 0 && net.topology().nodes[node].kind != NodeKind::switch_node) continue;
      const wire::PortInfo& info = net.port_info({node, static_cast<std::uint8_t>(port)});
      end = std::max(end, unsigned{raw(info.lid)} + (1U << info.lmc));
    }
  }
  return std::min<unsigned>(end, mad::kLinearLids);
}

std::string forwarding_of(const mad::NodeTables& tables, unsigned lids) {
  std::string text;
  for (unsigned block = 0; block * kBlockLids < lids; ++block) {
    for (const std::uint8_t port : tables.linear(block).ports) text += fmt::format("{:02x}", port);
  }
  return text;
}

std::string lanes_of(const mad::NodeTables& tables, unsigned ports, bool is_switch) {
  std::string text;
  for (unsigned input = 0; input <= (is_switch ? ports : 0); ++input) {
    for (unsigned output = 0; output <= ports; ++output) {
      if (!is_switch && output == 0) {  // A host has no port 0.
        text += std::string(16, 'f');
        continue;
      }
      for (const std::uint8_t lane : tables.sl_to_vl(input, output).lanes) {
        text += "0123456789abcdef"[lane & 0xfU];
      }
    }
  }
  return text;
}

}  // namespace

std::string tables_of(const ManagementNet& net, const std::vector<std::string>& data_faults) {
  const Topology& topology = net.topology();
  const unsigned lids = lids_end(net);
  Json nodes = Json::array();
  for (std::uint32_t i = 0; i < topology.nodes.size(); ++i) {
    const Node& node = topology.nodes[i];
    const bool is_switch = node.kind == NodeKind::switch_node;
    nodes.push_back({{"name", printable(node.name)},
                     {"guid", node.guid},
                     {"kind", word_of(node.kind)},
                     {"ports", ports_of(net, i, is_switch)},
                     {"forwarding", is_switch ? forwarding_of(net.tables(i), lids) : ""},
                     {"lanes", lanes_of(net.tables(i), node.ports, is_switch)}});
  }
  Json cables = Json::array();
  for (const Link& link : topology.links) {
    const bool is_active = net.port_info(link.a).state == wire::PortState::active &&
                           net.port_info(link.b).state == wire::PortState::active;
    cables.push_back({{"a", {link.a.node, link.a.port}},
                      {"b", {link.b.node, link.b.port}},
                      {"is_active", is_active}});
  }
  return Json{
      {"nodes", std::move(nodes)}, {"cables", std::move(cables)}, {"data_faults", data_faults}}
      .dump();
}

}  // namespace verbatim::fabric

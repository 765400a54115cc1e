#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "fabric/management/management_net.h"
#include "fabric/topology/read.h"
#include "wire/subnet/smp.h"

namespace verbatim::fabric {

/// Three switches in a triangle, four hosts: nodes 0 to 2 are S1 to S3, 3 to 6 are H1 to H4.
/// S1: 1 H1, 2 H2, 3 S2, 4 S3. S2: 1 H3, 3 S1, 4 S3. S3: 1 H4, 3 S1, 4 S2.
inline constexpr const char* kTriangle = R"(
Switch 36 "S1"
[1] "H1"[1]
[2] "H2"[1]
[3] "S2"[3]
[4] "S3"[3]

Switch 36 "S2"
[1] "H3"[1]
[3] "S1"[3]
[4] "S3"[4]

Switch 36 "S3"
[1] "H4"[1]
[3] "S1"[4]
[4] "S2"[4]

Hca 2 "H1"
[1] "S1"[1]

Hca 2 "H2"
[1] "S1"[2]

Hca 2 "H3"
[1] "S2"[1]

Hca 2 "H4"
[1] "S3"[1]
)";

inline Topology topology_of(const char* text) {
  Reading reading = read_topology(text);
  VERBATIM_ASSERT(reading.faults.empty());
  return std::move(reading.topology);
}

/// Keeps what the hosts' software is told.
class Recorder final : public HostSoftware {
 public:
  struct Arrival {
    PortPlace port;
    ManagementDatagram datagram;
  };
  std::vector<Arrival> arrivals;
  std::vector<PortPlace> changed;

  void on_datagram(PortPlace port, const ManagementDatagram& datagram, TimeNs) override {
    arrivals.push_back({port, datagram});
  }
  void on_port_changed(PortPlace port) override { changed.push_back(port); }
};

using Hops = std::vector<std::uint8_t>;

/// A fabric, and requests of one of its hosts.
class NetBench {
 public:
  explicit NetBench(Topology of) : topology(std::move(of)), net(topology, software, 1) {}

  Topology topology;
  Recorder software;
  ManagementNet net;
  TimeNs now = 0;

  /// The place of the node's port.
  PortPlace place(std::string_view name, std::uint8_t port = 1) const {
    for (std::uint32_t i = 0; i < topology.nodes.size(); ++i) {
      if (topology.nodes[i].name == name) return {i, port};
    }
    VERBATIM_ASSERT(false);
    return {};
  }

  static wire::Smp request(wire::MadMethod method, wire::SubnetAttribute attribute,
                           std::uint32_t modifier) {
    return {.method = method, .transaction = 7, .attribute = attribute, .modifier = modifier};
  }

  /// Sends by directed route: `hops` are the ports by which it leaves each node, the sender first.
  std::optional<wire::Smp> ask(PortPlace from, const Hops& hops, wire::Smp smp) {
    smp.route.emplace();
    smp.route->hop_count = static_cast<std::uint8_t>(hops.size());
    for (std::size_t i = 0; i < hops.size(); ++i) smp.route->initial_path[i + 1] = hops[i];
    return send(from, {.dlid = wire::kPermissiveLid, .slid = wire::kPermissiveLid, .grh = {}}, smp);
  }
  /// Sends LID routed, or mixed if `smp` has a route.
  std::optional<wire::Smp> ask(PortPlace from, Lid to, const wire::Smp& smp) {
    return send(from, {.dlid = to, .slid = net.port_info(from).lid, .grh = {}}, smp);
  }

  /// The answer's attribute, if there is an answer without error.
  template <typename T, typename Where>
  std::optional<T> get(PortPlace from, const Where& where, wire::SubnetAttribute attribute,
                       std::uint32_t modifier = 0) {
    const auto answer = ask(from, where, request(wire::MadMethod::get, attribute, modifier));
    if (!answer || answer->status != wire::MadStatus::ok) return std::nullopt;
    return wire::data_as<T>(*answer);
  }
  template <typename T, typename Where>
  std::optional<wire::Smp> set(PortPlace from, const Where& where, wire::SubnetAttribute attribute,
                               std::uint32_t modifier, const T& value) {
    wire::Smp smp = request(wire::MadMethod::set, attribute, modifier);
    wire::set_data(smp, value);
    return ask(from, where, smp);
  }

 private:
  /// Answers come within `send`.
  std::optional<wire::Smp> send(PortPlace from, const InfinibandPath& path, const wire::Smp& smp) {
    ManagementDatagram datagram{.path = path};
    encode(smp, datagram.mad);
    const std::size_t before = software.arrivals.size();
    net.send(from, datagram, now);
    for (std::size_t i = before; i < software.arrivals.size(); ++i) {
      if (software.arrivals[i].port != from) continue;
      const auto answer = wire::decode_smp(software.arrivals[i].datagram.mad);
      VERBATIM_ASSERT(answer.has_value());
      if (answer->transaction == smp.transaction) return *answer;
    }
    return std::nullopt;
  }
};

/// The routes from H1 to the nodes of `kTriangle`.
inline const std::map<std::string, Hops>& triangle_routes() {
  static const std::map<std::string, Hops> routes{
      {"S1", {1}},    {"S2", {1, 3}},    {"S3", {1, 4}},   {"H1", {}},
      {"H2", {1, 2}}, {"H3", {1, 3, 1}}, {"H4", {1, 4, 1}}};
  return routes;
}

/// Changes PortInfo of a port of `kTriangle` by an SMP from H1. Returns the answer.
template <typename Change>
wire::Smp change_port(NetBench& bench, const std::string& name, std::uint8_t port,
                      const Change& change) {
  using wire::SubnetAttribute;
  const PortPlace h1 = bench.place("H1");
  const Hops& route = triangle_routes().at(name);
  auto info = *bench.get<wire::PortInfo>(h1, route, SubnetAttribute::port_info, port);
  info.state = wire::PortState::no_change;
  info.physical_state = wire::PhysicalState::no_change;
  change(info);
  return bench.set(h1, route, SubnetAttribute::port_info, port, info).value();
}

/// As a manager at H1 does: LIDs 1 to 7 in the order of the nodes, each switch's routes, and all
/// links active.
inline void manage_triangle(NetBench& bench) {
  using wire::SubnetAttribute;
  const PortPlace h1 = bench.place("H1");
  for (const auto& [name, route] : triangle_routes()) {
    const auto lid = static_cast<Lid>(bench.place(name).node + 1);
    change_port(bench, name, name[0] == 'S' ? 0 : 1, [lid](wire::PortInfo& info) {
      info.lid = lid;
      info.sm_lid = Lid{4};
    });
  }
  const std::map<std::string, std::vector<std::uint8_t>> tables{{"S1", {255, 0, 3, 4, 1, 2, 3, 4}},
                                                                {"S2", {255, 3, 0, 4, 3, 3, 1, 4}},
                                                                {"S3", {255, 3, 4, 0, 3, 3, 4, 1}}};
  for (const auto& [name, ports] : tables) {
    const Hops& route = triangle_routes().at(name);
    auto info = *bench.get<wire::SwitchInfo>(h1, route, SubnetAttribute::switch_info);
    info.linear_forwarding_top = 7;
    info.port_state_change = true;
    bench.set(h1, route, SubnetAttribute::switch_info, 0, info);
    wire::LinearForwardingTable table;
    table.ports.fill(wire::LinearForwardingTable::kNoPort);
    std::ranges::copy(ports, table.ports.begin());
    bench.set(h1, route, SubnetAttribute::linear_forwarding_table, 0, table);
  }
  for (const auto state : {wire::PortState::armed, wire::PortState::active}) {
    for (const auto& [name, route] : triangle_routes()) {
      for (std::uint8_t port = 1; port <= 4; ++port) {
        const auto info = bench.get<wire::PortInfo>(h1, route, SubnetAttribute::port_info, port);
        if (!info || info->state == wire::PortState::down) continue;
        change_port(bench, name, port, [state](wire::PortInfo& now) { now.state = state; });
      }
    }
  }
}

}  // namespace verbatim::fabric

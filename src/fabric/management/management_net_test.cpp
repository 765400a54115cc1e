#include "fabric/management/management_net.h"

#include <deque>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"
#include "fabric/topology/generate.h"
#include "mad/sma/plain_tables.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::MadStatus;
using wire::NodeInfo;
using wire::PortInfo;
using wire::PortState;
using wire::SubnetAttribute;
using wire::SwitchInfo;

/// Looks at the fabric from one host as `ibnetdiscover` does: breadth first by directed routes.
struct Discovery {
  std::map<std::uint64_t, Hops> nodes;
  std::size_t link_ends = 0;
};

Discovery discover(NetBench& bench, PortPlace from) {
  Discovery found;
  std::deque<Hops> routes{{}};
  while (!routes.empty()) {
    const Hops route = routes.front();
    routes.pop_front();
    const auto info = bench.get<NodeInfo>(from, route, SubnetAttribute::node_info);
    if (!info) continue;
    ++found.link_ends;
    if (!found.nodes.emplace(info->node_guid, route).second) continue;
    if (info->node_type != wire::NodeType::switch_node && !route.empty()) continue;
    for (unsigned port = 1; port <= info->ports; ++port) {
      if (route.empty() && port != from.port) continue;
      const auto state = bench.get<PortInfo>(from, route, SubnetAttribute::port_info, port);
      if (!state || state->state == PortState::down) continue;
      routes.push_back(route);
      routes.back().push_back(static_cast<std::uint8_t>(port));
    }
  }
  return found;
}

TEST(ManagementNet, EveryHostDiscoversTheWholeFabric) {
  NetBench bench(topology_of(kTriangle));
  for (const char* host : {"H1", "H2", "H3", "H4"}) {
    const Discovery found = discover(bench, bench.place(host));
    EXPECT_EQ(found.nodes.size(), 7u) << host;
    // The host itself, and what its own and the switches' ports lead to.
    EXPECT_EQ(found.link_ends, 1u + 1 + 4 + 3 + 3) << host;
  }
}

TEST(ManagementNet, DiscoversAGeneratedFatTree) {
  NetBench bench(*generate(Shape::fat_tree, {.hosts = 64, .switch_ports = 16}));
  EXPECT_EQ(discover(bench, bench.place("H1")).nodes.size(), bench.topology.nodes.size());
}

TEST(ManagementNet, NodeInfoSaysByWhichPortItWasAsked) {
  NetBench bench(topology_of(kTriangle));
  const PortPlace h1 = bench.place("H1");
  EXPECT_EQ(bench.get<NodeInfo>(h1, Hops{}, SubnetAttribute::node_info)->local_port, 1);
  EXPECT_EQ(bench.get<NodeInfo>(h1, Hops{1}, SubnetAttribute::node_info)->local_port, 1);
  EXPECT_EQ(bench.get<NodeInfo>(h1, Hops{1, 4}, SubnetAttribute::node_info)->local_port, 3);
  EXPECT_EQ(bench.get<NodeInfo>(h1, Hops{1, 3, 4}, SubnetAttribute::node_info)->local_port, 4);
  const auto h4 = bench.get<NodeInfo>(h1, Hops{1, 4, 1}, SubnetAttribute::node_info);
  EXPECT_EQ(h4->node_guid, bench.topology.nodes[bench.place("H4").node].guid);
  EXPECT_EQ(h4->node_type, wire::NodeType::channel_adapter);
}

/// What comes back is the request with the other direction, and the whole modifier.
TEST(ManagementNet, AnswerEchoesTheRequest) {
  NetBench bench(topology_of(kTriangle));
  const auto answer =
      bench.ask(bench.place("H1"), Hops{1, 3},
                NetBench::request(MadMethod::get, SubnetAttribute::port_info, 0x80000003));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->modifier, 0x80000003u);
  EXPECT_EQ(answer->method, MadMethod::get_response);
  EXPECT_EQ(answer->status, MadStatus::ok);
  EXPECT_TRUE(answer->route->is_returning);
  EXPECT_EQ(answer->route->hop_pointer, 0);
  EXPECT_EQ(answer->route->return_path[2], 3);
  const ManagementDatagram& datagram = bench.software.arrivals.back().datagram;
  EXPECT_EQ(datagram.path.slid, wire::kPermissiveLid);
  EXPECT_EQ(datagram.path.dlid, wire::kPermissiveLid);
}

TEST(ManagementNet, ARouteThatLeadsNowhereIsSilent) {
  NetBench bench(topology_of(kTriangle));
  const PortPlace h1 = bench.place("H1");
  const auto node_info = NetBench::request(MadMethod::get, SubnetAttribute::node_info, 0);
  for (const Hops& route :
       {Hops{2}, Hops{1, 0}, Hops{1, 5}, Hops{1, 37}, Hops{1, 255}, Hops{1, 2, 1}, Hops{1, 3, 2}}) {
    EXPECT_FALSE(bench.ask(h1, route, node_info)) << testing::PrintToString(route);
  }
}

TEST(ManagementNet, SmpsAreRoutedByLid) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  for (const char* from : {"H1", "H2", "H3", "H4"}) {
    for (std::uint16_t lid = 1; lid <= 7; ++lid) {
      const auto info =
          bench.get<NodeInfo>(bench.place(from), Lid{lid}, SubnetAttribute::node_info);
      ASSERT_TRUE(info) << from << " to " << lid;
      EXPECT_EQ(info->node_guid, bench.topology.nodes[lid - 1u].guid);
    }
    EXPECT_FALSE(bench.get<NodeInfo>(bench.place(from), Lid{8}, SubnetAttribute::node_info));
  }
}

/// As `ibportstate LID PORT query` asks for the peer of a switch's port.
TEST(ManagementNet, MixedRouteBeginsAtALid) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  const PortPlace h3 = bench.place("H3");
  wire::Smp smp = NetBench::request(MadMethod::get, SubnetAttribute::node_info, 0);
  smp.route.emplace();
  smp.route->source_lid = bench.net.port_info(h3).lid;
  smp.route->hop_count = 1;
  smp.route->initial_path[1] = 2;
  const auto answer = bench.ask(h3, Lid{1}, smp);  // S1, then H2.
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::data_as<NodeInfo>(*answer).node_guid,
            bench.topology.nodes[bench.place("H2").node].guid);
  EXPECT_EQ(bench.software.arrivals.back().datagram.path.dlid, Lid{6});
}

TEST(ManagementNet, MixedRouteEndsAtALid) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  const PortPlace h1 = bench.place("H1");
  wire::Smp smp = NetBench::request(MadMethod::get, SubnetAttribute::node_info, 0);
  smp.route.emplace();
  smp.route->destination_lid = Lid{7};
  smp.route->hop_count = 2;
  smp.route->initial_path[1] = 1;
  smp.route->initial_path[2] = 3;  // S2, which routes to H4.
  const auto answer = bench.ask(h1, wire::kPermissiveLid, smp);
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire::data_as<NodeInfo>(*answer).node_guid,
            bench.topology.nodes[bench.place("H4").node].guid);
}

TEST(ManagementNet, LoopInTheForwardingTablesEnds) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  const PortPlace h1 = bench.place("H1");
  for (const auto& [route, port] :
       std::map<Hops, std::uint8_t>{{{1}, 3}, {{1, 3}, 3}, {{1, 4}, 3}}) {
    wire::LinearForwardingTable table;
    table.ports.fill(port);
    bench.set(h1, route, SubnetAttribute::linear_forwarding_table, 0, table);
  }
  // S1 and S2 send to each other.
  EXPECT_FALSE(bench.get<NodeInfo>(h1, Lid{7}, SubnetAttribute::node_info));
}

/// The data path gives tables of its own, which it reads while packets pass.
TEST(ManagementNet, WritesIntoTheTablesOfTheDataPath) {
  const Topology topology = topology_of(kTriangle);
  Recorder software;
  std::vector<const mad::NodeTables*> made;
  const ManagementNet net(topology, software, 1, [&](std::uint32_t node) {
    EXPECT_EQ(node, made.size());
    const Node& of = topology.nodes[node];
    auto tables = std::make_unique<mad::PlainTables>(of.ports, of.kind == NodeKind::switch_node);
    made.push_back(tables.get());
    return tables;
  });
  ASSERT_EQ(made.size(), topology.nodes.size());
  EXPECT_EQ(net.pkeys({3, 1}).data(), made[3]->p_keys(1).data());
}

TEST(ManagementNet, SoftwareLearnsThatItShallRegisterAgain) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  const PortPlace h4 = bench.place("H4");
  for (const std::uint32_t count : {1, 2}) {
    bench.software.changed.clear();
    const wire::Smp answer =
        change_port(bench, "H4", 1, [](wire::PortInfo& info) { info.client_reregister = true; });
    EXPECT_TRUE(wire::data_as<wire::PortInfo>(answer).client_reregister);
    EXPECT_EQ(bench.software.changed, std::vector{h4});
    EXPECT_EQ(bench.net.reregistrations(h4), count);
    EXPECT_FALSE(bench.net.port_info(h4).client_reregister);
  }
}

TEST(ManagementNet, ExtendedPortInfoHasNoErrorCorrectionToChoose) {
  NetBench bench(topology_of(kTriangle));
  const auto ask = [&bench](MadMethod method, std::uint32_t port) {
    return bench.ask(bench.place("H1"), Hops{1},
                     NetBench::request(method, SubnetAttribute::port_info_extended, port));
  };
  EXPECT_EQ(ask(MadMethod::get, 3)->status, MadStatus::ok);
  EXPECT_EQ(ask(MadMethod::get, 37)->status, MadStatus::invalid_value);
  EXPECT_EQ(ask(MadMethod::set, 3)->status, MadStatus::unsupported_attribute);
}

}  // namespace
}  // namespace verbatim::fabric

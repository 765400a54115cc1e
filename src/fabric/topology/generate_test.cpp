#include "fabric/topology/generate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/topology/read.h"
#include "fabric/topology/write.h"

namespace verbatim::fabric {
namespace {

Topology made(Shape shape, const GenerateOptions& options) {
  auto topology = generate(shape, options);
  EXPECT_TRUE(topology) << topology.error().text;
  return topology ? *std::move(topology) : Topology{};
}

std::size_t count_of(const Topology& topology, NodeKind kind) {
  return static_cast<std::size_t>(std::ranges::count(topology.nodes, kind, &Node::kind));
}

/// How many sets of nodes have no link between them. A router connects what is cabled to it.
std::size_t islands_of(const Topology& topology) {
  std::vector<std::uint32_t> parents(topology.nodes.size());
  std::iota(parents.begin(), parents.end(), 0u);
  const auto root_of = [&](std::uint32_t node) {
    while (parents[node] != node) node = parents[node] = parents[parents[node]];
    return node;
  };
  for (const Link& link : topology.links) parents[root_of(link.a.node)] = root_of(link.b.node);
  std::size_t islands = 0;
  for (std::uint32_t i = 0; i < parents.size(); ++i) islands += root_of(i) == i ? 1 : 0;
  return islands;
}

TEST(Generate, EveryShapeOfAnyNumberOfHostsIsOneFabric) {
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const auto shape = static_cast<Shape>(i);
    for (const std::uint32_t hosts : {1u, 2u, 3u, 7u, 8u, 9u, 16u, 17u, 30u, 33u, 64u, 100u}) {
      for (const unsigned ports : {8u, 9u, 36u}) {
        const auto topology = generate(shape, {.hosts = hosts, .switch_ports = ports});
        if (!topology) {  // Small switches hold few hosts; a router needs a host to either side.
          EXPECT_TRUE(ports < 10 || (shape == Shape::two_subnets && hosts < 2))
              << kShapes[i].name << " " << hosts << ": " << topology.error().text;
          continue;
        }
        EXPECT_TRUE(faults_of(*topology).empty()) << text_of(faults_of(*topology)[0]);
        EXPECT_EQ(count_of(*topology, NodeKind::adapter), hosts);
        EXPECT_EQ(islands_of(*topology), 1u) << kShapes[i].name << " " << hosts;
      }
    }
  }
}

TEST(Generate, HostsAreH1ToHN) {
  const Topology topology = made(Shape::two_subnets, {.hosts = 5});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(topology.nodes[i].name, "H" + std::to_string(i + 1));
  EXPECT_EQ(count_of(topology, NodeKind::router), 1u);
}

TEST(Generate, FatTreesHaveTheSwitchesThatTheyNeed) {
  EXPECT_EQ(count_of(made(Shape::fat_tree, {.hosts = 36}), NodeKind::switch_node), 1u);
  // 648 hosts: 36 leaves with 18 each, 18 spines.
  EXPECT_EQ(count_of(made(Shape::fat_tree, {.hosts = 648}), NodeKind::switch_node), 54u);
  // 3:1: 9 uplinks for 27 hosts: 24 leaves, 6 spines.
  EXPECT_EQ(
      count_of(made(Shape::fat_tree, {.hosts = 648, .oversubscription = 3}), NodeKind::switch_node),
      30u);
}

TEST(Generate, TwoPortsOfAHostHaveASwitchEach) {
  for (const std::uint32_t hosts : {1u, 2u, 7u, 36u, 300u}) {
    const Topology topology = made(Shape::fat_tree, {.hosts = hosts, .host_ports = 2});
    EXPECT_TRUE(faults_of(topology).empty()) << text_of(faults_of(topology)[0]);
    EXPECT_EQ(islands_of(topology), 1u);
    std::map<PortPlace, std::uint32_t> switches;  // By port of a host.
    for (const Link& link : topology.links) {
      for (const auto& [end, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        if (topology.nodes[end.node].kind == NodeKind::adapter) switches[end] = other.node;
      }
    }
    ASSERT_EQ(switches.size(), 2 * hosts);
    for (const auto& [end, leaf] : switches) {
      EXPECT_TRUE(end.port == 2 || leaf != switches.at({end.node, 2})) << hosts;
    }
  }
  EXPECT_FALSE(generate(Shape::fat_tree, {.hosts = 8, .host_ports = 3}));
}

TEST(Generate, TorusRingsCloseAndTwoNeighboursHaveOneCable) {
  // 12 hosts on switches of 8 ports, 4 each (2D): 3 switches, so 2 by 2.
  const Topology square = made(Shape::torus_2d, {.hosts = 12, .switch_ports = 8});
  EXPECT_EQ(square.links.size(), 12u + 4u);
  // 36 hosts: 9 switches, 3 by 3, each with 4 neighbours.
  const Topology nine = made(Shape::torus_2d, {.hosts = 36, .switch_ports = 8});
  EXPECT_EQ(nine.links.size(), 36u + 18u);
}

TEST(Generate, HypercubeAndMeshHaveAllTheirLinks) {
  const Topology cube = made(Shape::hypercube, {.hosts = 32, .switch_ports = 8});
  EXPECT_EQ(cube.links.size(), 32u + 12u);  // 8 switches, 3 neighbours each.
  const Topology mesh = made(Shape::full_mesh, {.hosts = 20, .switch_ports = 8});
  EXPECT_EQ(mesh.links.size(), 20u + 6u);  // 4 switches of 5 hosts and 3 neighbours.
}

TEST(Generate, FabricsOfOtherBasesShareNoGuidAndNoName) {
  Topology all = made(Shape::two_subnets, {.hosts = 8});
  const Topology other =
      made(Shape::two_subnets, {.hosts = 8, .guid_base = 0xffff, .name_prefix = "b-"});
  EXPECT_EQ(other.nodes[0].name, "b-" + all.nodes[0].name);
  EXPECT_EQ(other.nodes[0].guid, all.nodes[0].guid | 0xffff'0000'0000);
  EXPECT_EQ(other.links, all.links);
  all.nodes.insert(all.nodes.end(), other.nodes.begin(), other.nodes.end());
  EXPECT_TRUE(faults_of(all).empty());
  EXPECT_FALSE(
      generate(Shape::full_mesh, {.hosts = 1, .name_prefix = std::string(kNameBytesMax, 'b')}));
}

TEST(Generate, TooManyHostsAreRefusedInWords) {
  const auto topology = generate(Shape::full_mesh, {.hosts = 100, .switch_ports = 8});
  ASSERT_FALSE(topology);
  EXPECT_EQ(topology.error().text,
            "100 hosts are more than 20, which is all that this shape holds with switches of 8 "
            "ports: take switches of more ports");
  EXPECT_FALSE(generate(Shape::fat_tree, {.hosts = 0}));
  EXPECT_FALSE(generate(Shape::fat_tree, {.hosts = 8, .switch_ports = 300}));
}

TEST(Generate, TenThousandHostsAreWrittenAndReadAsTheSame) {
  const Topology topology = made(
      Shape::fat_tree, {.hosts = 10'000, .rate = {LinkWidth::x4, LinkSpeed::ndr}, .length_m = 5});
  EXPECT_TRUE(faults_of(topology).empty());
  for (const Format format : {Format::ibnetdiscover, Format::ibsim}) {
    const Reading again = read_topology(write_topology(topology, format));
    ASSERT_TRUE(again.faults.empty()) << text_of(again.faults[0]);
    EXPECT_TRUE(again.topology == topology);
  }
}

}  // namespace
}  // namespace verbatim::fabric

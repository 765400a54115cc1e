#include "fabric/check/check.h"

#include <gtest/gtest.h>

#include "fabric/check/read_snapshot.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kSize = 4;
const ServiceLevels kLevelZero{.by_port = {}, .of_other_ports = 1};

/// Switches S0 to S3 in a ring: port 1 to the host, port 2 to the next one, port 3 to the one
/// before. The host of switch i is node 4 + i and has LID 1 + i; the switch has LID 11 + i.
Snapshot ring() {
  Snapshot ring;
  for (std::uint16_t i = 0; i < kSize; ++i) {
    NodeSnapshot node{.name = "S" + std::to_string(i), .kind = NodeKind::switch_node};
    node.ports.resize(4);
    node.ports[0].lid = static_cast<std::uint16_t>(11 + i);
    node.forwarding.assign(16, kNoOutput);
    node.lanes.assign(4 * 4 * kServiceLevels, 0);
    ring.nodes.push_back(node);
    const auto next = (i + 1) % kSize;
    ring.cables.push_back({{i, 2}, {next, 3}, true});
  }
  for (std::uint16_t i = 0; i < kSize; ++i) {
    NodeSnapshot node{.name = "H" + std::to_string(i)};
    node.ports.resize(2);
    node.ports[1] = {.lid = static_cast<std::uint16_t>(1 + i), .p_keys = {0xffff}};
    node.lanes.assign(2 * kServiceLevels, 0);
    ring.nodes.push_back(node);
    ring.cables.push_back({{i, 1}, {kSize + i, 1}, true});
  }
  return ring;
}

/// Everything goes round the ring in one direction, as far as two cables: a textbook deadlock.
Snapshot clockwise_ring() {
  Snapshot made = ring();
  for (std::uint32_t at = 0; at < kSize; ++at) {
    for (std::uint32_t to = 0; to < kSize; ++to) {
      made.nodes[at].forwarding[1 + to] = at == to ? 1 : 2;
      made.nodes[at].forwarding[11 + to] = at == to ? 0 : 2;
    }
  }
  return made;
}

/// The cable from S3 to S0 carries nothing: a line has no cycle.
Snapshot line() {
  Snapshot made = clockwise_ring();
  for (std::uint32_t at = 0; at < kSize; ++at) {
    for (std::uint32_t to = 0; to < at; ++to) {
      made.nodes[at].forwarding[1 + to] = 3;
      made.nodes[at].forwarding[11 + to] = 3;
    }
  }
  return made;
}

std::string all(const std::vector<std::string>& findings) {
  std::string text;
  for (const std::string& finding : findings) text += finding + "\n";
  return text;
}

TEST(FabricCheck, ALineIsClean) { EXPECT_EQ(all(check(line(), kLevelZero)), ""); }

TEST(FabricCheck, PortsWithOneGuidAreNamed) {
  Snapshot made = line();
  made.nodes[4].ports[1].guid = made.nodes[6].ports[1].guid = 0x1234;
  made.nodes[5].ports[1].guid = 0x1235;
  EXPECT_EQ(all(check(made, kLevelZero)),
            "H0/1 and H2/1 have one GUID, 0x1234: a subnet manager takes them for one port\n");
}

TEST(FabricCheck, ServiceLevelsThatNoSwitchCarriesAreNamed) {
  Snapshot made = line();
  const auto set_lane = [&](std::uint32_t node, unsigned level, std::uint8_t lane) {
    for (std::size_t i = level; i < made.nodes[node].lanes.size(); i += kServiceLevels) {
      made.nodes[node].lanes[i] = lane;
    }
  };
  for (std::uint32_t node = 0; node < kSize; ++node) {
    for (unsigned level = 8; level < kServiceLevels; ++level) set_lane(node, level, kNoLane);
  }
  set_lane(2, 15, 0);
  EXPECT_EQ(all(check(made, kLevelZero)),
            "no switch carries service levels 8 to 14: what has them is dropped\n");
  for (unsigned level = 8; level < kServiceLevels; ++level) set_lane(1, level, 1);
  for (PortSnapshot& port : made.nodes[1].ports) port.data_lanes = 1;
  set_lane(2, 9, 0);
  EXPECT_EQ(all(check(made, kLevelZero)),
            "no switch carries service levels 8, 10 to 14: what has them is dropped\n")
      << "a lane that is not in force carries nothing";
}

/// Their LIDs are the same, and no cable leads from one to the other.
TEST(FabricCheck, SubnetsHaveNothingToDoWithEachOther) {
  Snapshot two = line();
  const Snapshot other = line();
  const auto first = static_cast<std::uint32_t>(two.nodes.size());
  two.nodes.insert(two.nodes.end(), other.nodes.begin(), other.nodes.end());
  for (CableSnapshot cable : other.cables) {
    cable.a.node += first;
    cable.b.node += first;
    two.cables.push_back(cable);
  }
  EXPECT_EQ(all(check(two, kLevelZero)), "");
  two.nodes[first].forwarding[2] = kNoOutput;
  EXPECT_NE(all(check(two, kLevelZero)).find("S0 has no route"), std::string::npos);
}

TEST(FabricCheck, ARingInOneDirectionHasACreditLoopOnItsLane) {
  EXPECT_EQ(all(check(clockwise_ring(), kLevelZero)),
            "a credit loop: S0/2 lane 0 > S1/2 lane 0 > S2/2 lane 0 > S3/2 lane 0 > S0/2 lane 0\n");
}

TEST(FabricCheck, TheLaneFollowsFromInputAndOutput) {
  Snapshot ring = clockwise_ring();
  NodeSnapshot& s0 = ring.nodes[0];
  s0.lanes[(3 * 4 + 2) * kServiceLevels] = 1;  // From S3's cable to S1's.
  EXPECT_EQ(all(find_credit_loops(ring, kLevelZero)),
            "a credit loop: S1/2 lane 0 > S2/2 lane 0 > S3/2 lane 0 > S0/2 lane 1 > S1/2 lane 0\n");
  s0.lanes[(3 * 4 + 2) * kServiceLevels] = kNoLane;  // Dropped: nothing waits.
  EXPECT_EQ(all(find_credit_loops(ring, kLevelZero)), "");
}

TEST(FabricCheck, ServiceLevelsHaveTheirOwnLanes) {
  Snapshot ring = clockwise_ring();
  for (NodeSnapshot& node : ring.nodes) {
    for (std::size_t at = 1; at < node.lanes.size(); at += kServiceLevels) node.lanes[at] = 5;
  }
  EXPECT_NE(all(find_credit_loops(ring, ServiceLevels{.by_port = {}, .of_other_ports = 2}))
                .find("S0/2 lane 5"),
            std::string::npos);
  EXPECT_EQ(find_credit_loops(ring, ServiceLevels{.by_port = {}, .of_other_ports = 3}).size(), 2U);
}

/// From each host to the one two switches further, at a level that has a lane of its own if the
/// packets cross the cable from S3 to S0: what lash and dfsssp do with a ring.
TEST(FabricCheck, EachPairHasItsServiceLevel) {
  Snapshot ring = clockwise_ring();
  for (NodeSnapshot& node : ring.nodes) {
    for (std::size_t at = 1; at < node.lanes.size(); at += kServiceLevels) node.lanes[at] = 1;
  }
  ServiceLevels levels;
  const auto set = [&](std::uint32_t from, LevelSet level) {
    LevelsByLid& by_lid = levels.by_port[{kSize + from, 1}];
    by_lid.assign(1 + kSize, 0);
    by_lid[1 + (from + 2) % kSize] = level;
  };
  for (std::uint32_t from = 0; from < kSize; ++from) set(from, from < 2 ? 1 : 2);
  EXPECT_EQ(all(check(ring, levels)), "");
  for (std::uint32_t from = 2; from < kSize; ++from) set(from, 1);
  EXPECT_EQ(all(check(ring, levels)),
            "a credit loop: S0/2 lane 0 > S1/2 lane 0 > S2/2 lane 0 > S3/2 lane 0 > S0/2 lane 0\n");
  levels.by_port[{kSize + 2, 1}] = {};  // Nothing holds S2's cable while it waits for S3's.
  EXPECT_EQ(all(check(ring, levels)), "");
}

/// Subnets of two switches, A and B, C and D: port 1 to the switch's host, 2 to the other switch, 3
/// to a router. R0 joins B and C, R1 joins D and A. LIDs of both subnets: 1 and 2 the hosts, 3 the
/// port of R0, 4 that of R1. Service level 1 has lane 1.
Snapshot two_routers() {
  Snapshot made;
  const auto add = [&](std::string name, NodeKind kind, std::vector<std::uint16_t> lids) {
    NodeSnapshot node{.name = std::move(name), .kind = kind};
    for (const std::uint16_t lid : lids) node.ports.push_back({.lid = lid, .p_keys = {0xffff}});
    node.lanes.assign(lids.size() * lids.size() * kServiceLevels, 0);
    for (std::size_t at = 1; at < node.lanes.size(); at += kServiceLevels) node.lanes[at] = 1;
    made.nodes.push_back(node);
  };
  constexpr auto kSwitch = NodeKind::switch_node;
  add("A", kSwitch, {5, 0, 0, 0});
  add("B", kSwitch, {6, 0, 0, 0});
  add("C", kSwitch, {5, 0, 0, 0});
  add("D", kSwitch, {6, 0, 0, 0});
  for (std::uint16_t i = 0; i < 4; ++i) {
    add("H" + made.nodes[i].name, NodeKind::adapter, {0, static_cast<std::uint16_t>(1 + i % 2)});
  }
  add("R0", NodeKind::router, {0, 3, 3});
  add("R1", NodeKind::router, {0, 4, 4});
  made.nodes[0].forwarding = {kNoOutput, 1, 2, 2, 3, 0, 2};
  made.nodes[1].forwarding = {kNoOutput, 2, 1, 3, 2, 2, 0};
  made.nodes[2].forwarding = {kNoOutput, 1, 2, 3, 2, 0, 2};
  made.nodes[3].forwarding = {kNoOutput, 2, 1, 2, 3, 2, 0};
  made.cables = {{{0, 2}, {1, 2}, true}, {{2, 2}, {3, 2}, true}, {{1, 3}, {8, 1}, true},
                 {{2, 3}, {8, 2}, true}, {{3, 3}, {9, 1}, true}, {{0, 3}, {9, 2}, true}};
  for (std::uint32_t i = 0; i < 4; ++i) made.cables.push_back({{i, 1}, {4 + i, 1}, true});
  return made;
}

/// From HA by R0 to HD, and from HC by R1 to HB.
TEST(FabricCheck, PacketsHoldBuffersInBothSubnetsOfARouter) {
  const Snapshot snapshot = two_routers();
  ServiceLevels levels{.by_port = {{{4, 1}, {0, 0, 0, 1}}, {{6, 1}, {0, 0, 0, 0, 1}}},
                       .of_other_ports = 0};
  EXPECT_EQ(all(check(snapshot, levels)),
            "a credit loop: A/2 lane 0 > B/3 lane 0 > R0/2 lane 0 > C/2 lane 0 > D/3 lane 0 > "
            "R1/2 lane 0 > A/2 lane 0\n");
  levels.by_port[{6, 1}][4] = 2;  // It keeps service level 1 in both subnets.
  EXPECT_EQ(all(check(snapshot, levels)), "");
}

TEST(FabricCheck, AForwardingLoopIsNamed) {
  Snapshot wrong = line();
  wrong.nodes[1].forwarding[4] = 3;  // To H3, back to S0.
  EXPECT_EQ(all(find_unreachable(wrong)),
            "H3/1 (LID 4) cannot be reached from H0/1, H1/1: a forwarding loop: S0 > S1 > S0\n");
}

TEST(FabricCheck, RoutesThatEndAreNamed) {
  Snapshot wrong = line();
  wrong.nodes[2].forwarding[4] = kNoOutput;
  wrong.nodes[0].forwarding[2] = 1;
  const std::string text = all(find_unreachable(wrong));
  EXPECT_NE(text.find("H3/1 (LID 4) cannot be reached from H0/1, H1/1, H2/1: S2 has no route\n"),
            std::string::npos);
  EXPECT_NE(text.find("H1/1 (LID 2) cannot be reached from H0/1: S0 sends to H0/1\n"),
            std::string::npos);
  wrong.cables[0].is_active = false;
  EXPECT_NE(all(find_unreachable(wrong)).find("S0 sends to port 2, which is not active"),
            std::string::npos);
}

TEST(FabricCheck, ParallelCablesShareRoutes) {
  Snapshot two = line();
  two.nodes[2].ports.resize(5);
  two.nodes[3].ports.resize(5);
  two.cables.push_back({{2, 4}, {3, 4}, true});
  EXPECT_EQ(all(find_unbalanced(two)),
            "unbalanced cables from S3 to S2: 3 routes by port 3, 0 by port 4\n");
  two.nodes[3].forwarding[1] = 4;
  EXPECT_EQ(all(find_unbalanced(two)), "");
}

TEST(FabricCheck, PKeysThatCannotWorkAreNamed) {
  Snapshot wrong = line();
  wrong.nodes[kSize].ports[1].p_keys = {0x7fff, 0x0001};
  wrong.nodes[kSize + 1].ports[1].p_keys = {0x0001};
  wrong.nodes[kSize + 2].ports[1].p_keys = {0xffff, 0x7fff, 0x7fff};
  EXPECT_EQ(all(find_wrong_p_keys(wrong)),
            "H1/1 is not in the default partition: it cannot ask the subnet manager for paths\n"
            "H2/1 has P_Key 0x7fff in 2 entries of its table\n"
            "all 2 members of partition 0x0001 are limited: none may talk to another\n");
}

TEST(FabricCheck, TextThatIsNoSnapshotIsRefused) {
  constexpr const char* kGood =
      R"({"nodes": [{"name": "H", "guid": 1, "kind": "Ca", "forwarding": "0aff", "lanes": "0f",
          "ports": [{"guid": 0, "lid": 0, "lmc": 0, "data_lanes": 0, "p_keys": []},
                    {"guid": 18, "lid": 7, "lmc": 1, "data_lanes": 4, "p_keys": [65535]}]}],
          "cables": [{"a": [0, 1], "b": [0, 1], "is_active": true}],
          "data_faults": ["link 3: a credit is lost"]})";
  const auto good = read_snapshot(kGood);
  ASSERT_TRUE(good);
  EXPECT_EQ(check(*good, kLevelZero).back(), "link 3: a credit is lost");
  EXPECT_EQ(good->nodes[0].output(0), 10);
  EXPECT_EQ(good->nodes[0].output(9), kNoOutput);
  EXPECT_EQ(good->nodes[0].ports[1].lid, 7);
  std::string wrong = kGood;
  wrong.replace(wrong.find("[0, 1]"), 6, "[1, 1]");
  EXPECT_FALSE(read_snapshot(wrong));
  EXPECT_FALSE(read_snapshot("{}"));
  EXPECT_FALSE(read_snapshot("["));
}

}  // namespace
}  // namespace verbatim::fabric

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/virtual/virtual_net_for_test.h"
#include "fabric/topology/subnets/gid_prefix.h"

/// Routers between subnets (IBA chapter 19).
namespace verbatim::fabric {
namespace {

constexpr PortPlace kRouter{2, 1};

class FabricRouter : public testing::Test {
 protected:
  const Image& image() const { return fabric.image(); }
  Lid router() const { return lid_of(image().station_of(kRouter)); }
  Gid gid(std::size_t host) const { return gid_of(image(), fabric.hosts[host]); }
  /// What the router has counted of packets that have come to its port in H1's subnet.
  const LinkRecord::Counters& counters() const {
    return image().link(image().port(image().node(image().station_of(kRouter)), 1).in).counters;
  }
  const LinkRecord::Counters& output() const {
    return image().link(image().port(image().node(image().station_of(kRouter)), 2).out).counters;
  }
  /// H1 sends to H2, by the router. Returns what has come to H2.
  std::vector<RoutedMark> exchange(Mark mark, std::uint8_t hop_limit = 64) {
    EXPECT_TRUE(fabric.send_routed(0, 1, router(), mark, hop_limit));
    fabric.ends[0]->push(fabric.walker());
    std::vector<RoutedMark> came;
    fabric.ends[1]->receive(fabric.walker(), kNever - 1, [&](const IncomingPacket& packet) {
      came.push_back(routed_mark_of(packet).value());
    });
    return came;
  }
  bool is_empty() const { return faults_when_empty(image()).empty(); }

  TestFabric fabric{two_switches_and_a_router(4)};
};

TEST_F(FabricRouter, TheNextSubnetHasNewLidsAndOneHopLess) {
  const auto came = exchange({.flow = 7, .number = 3});
  ASSERT_EQ(came.size(), 1u);
  EXPECT_EQ(came[0].mark.flow, 7u);
  EXPECT_EQ(came[0].lrh.dlid, fabric.lid(1));
  EXPECT_EQ(came[0].lrh.slid, router());
  EXPECT_EQ(came[0].lrh.length_words, 128 / 4);
  EXPECT_EQ(came[0].grh.hop_limit, 63);
  EXPECT_EQ(came[0].grh.source, gid(0));
  EXPECT_EQ(came[0].grh.destination, gid(1));
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, ThePacketAfterAForwardedOneInItsSlotIsForwardedToo) {
  for (std::uint32_t number = 0; number < 3 * kSlotsOfAnEnd; ++number) {
    const auto came = exchange({.number = number}, static_cast<std::uint8_t>(2 + number % 200));
    ASSERT_EQ(came.size(), 1u) << number;
    EXPECT_EQ(came[0].mark.number, number);
    EXPECT_EQ(came[0].grh.hop_limit, 1 + number % 200);
  }
}

TEST_F(FabricRouter, TheLastHopEndsThere) {
  EXPECT_TRUE(exchange({}, 1).empty());
  EXPECT_TRUE(exchange({}, 0).empty());
  EXPECT_EQ(output().lifetime_discards, 2u);
  EXPECT_EQ(exchange({}, 2).size(), 1u);
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, AnUnknownSubnetOrHostIsCounted) {
  const auto send = [&](const Gid& source, const Gid& destination) {
    EXPECT_TRUE(post_routed(*fabric.ends[0], router(), source, destination, {}, {}));
    fabric.ends[0]->push(fabric.walker());
  };
  Gid other_prefix = gid(1);
  other_prefix.bytes[5] = 9;
  send(gid(0), other_prefix);
  Gid other_guid = gid(1);
  other_guid.bytes[15] ^= 0x80;
  send(gid(0), other_guid);
  Gid wrong_subnet = gid(0);  // The prefix of H2's subnet with the GUID of H1.
  std::copy_n(gid(1).bytes.begin(), 8, wrong_subnet.bytes.begin());
  send(gid(0), wrong_subnet);
  EXPECT_EQ(counters().dlid_errors, 3u);
  EXPECT_TRUE(fabric.receive(1).empty());
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, LinkLocalPacketsStayInTheirSubnet) {
  Tables tables(image());
  for (const NodeIndex node : fabric.hosts) {
    tables.set_gid_prefix(node, kCablePort, kDefaultGidPrefix);
  }
  EXPECT_TRUE(exchange({}).empty());
  EXPECT_EQ(counters().dlid_errors, 1u);
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, BackIntoItsSubnetIsALoop) {
  ASSERT_TRUE(fabric.send_routed(0, 2, router(), {}));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_EQ(counters().looping_errors, 1u);
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, OnlyItsLidAndOnlyPacketsWithAGrh) {
  constexpr Lid kNobody{900};
  Tables(image()).set_route(image().station_of({0, 0}), kNobody, 1);
  ASSERT_TRUE(post_routed(*fabric.ends[0], kNobody, gid(0), gid(1), {}, {}));
  ASSERT_TRUE(post_mark(*fabric.ends[0], router(), 0, {}, 64));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_EQ(counters().dlid_errors, 2u);
  EXPECT_TRUE(is_empty());
}

TEST_F(FabricRouter, WaitsForCreditsAsASwitchDoes) {
  std::uint32_t sent = 0;
  while (fabric.send_routed(0, 1, router(), {.number = sent})) {
    fabric.ends[0]->push(fabric.walker());
    ++sent;
  }
  EXPECT_GT(sent, 100u);
  const auto faults = faults_of(image());
  EXPECT_TRUE(faults.empty()) << faults.front();
  std::uint32_t received = 0;
  while (fabric.ends[1]->receive(fabric.walker(), kNever - 1, [&](const IncomingPacket& packet) {
    EXPECT_EQ(routed_mark_of(packet).value().mark.number, received++);
  }) != 0) {
  }
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(is_empty());
}

TEST(FabricRouterTime, ARouterTakesTheTimeOfItsLinks) {
  VirtualNet net(two_switches_and_a_router(2));
  set_rates(net.image(), 1000, 50);  // A byte a nanosecond.
  const TimeNs begin = net.fabric->now();
  ASSERT_TRUE(post_routed(*net.ends[0], lid_of(net.image().station_of(kRouter)),
                          gid_of(net.image(), net.hosts[0]), gid_of(net.image(), net.hosts[1]), {},
                          {.bytes = 1000}));
  net.push(0);
  TimeNs arrived = 0;
  net.run([&](std::size_t, Mark) { arrived = net.fabric->now(); }, [](std::size_t) {});
  EXPECT_EQ(arrived - begin, 4 * (1000u + 50));
  EXPECT_TRUE(faults_when_empty(net.image()).empty());
}

}  // namespace
}  // namespace verbatim::fabric

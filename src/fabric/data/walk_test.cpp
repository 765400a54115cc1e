#include <initializer_list>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/image/gate.h"

namespace verbatim::fabric {
namespace {

TEST(FabricWalk, APacketCrossesOneSwitch) {
  TestFabric fabric(row_of_switches(1, 2));
  ASSERT_TRUE(fabric.send(0, 1, {.flow = 7, .number = 1}));
  EXPECT_FALSE(fabric.ends[1]->has_packets()) << "it leaves with push()";
  fabric.ends[0]->push(fabric.walker());
  EXPECT_TRUE(fabric.ends[1]->has_packets());
  const std::vector<Mark> marks = fabric.receive(1);
  ASSERT_EQ(marks.size(), 1);
  EXPECT_EQ(marks[0].flow, 7u);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, ALargePacketsPayloadBeginsACacheLine) {
  constexpr std::size_t kHeaderBytes = 8 + 12;  // LRH and BTH.
  TestFabric fabric(row_of_switches(1, 2));
  for (const std::uint32_t bytes : {4122u, 64u}) ASSERT_TRUE(fabric.send(0, 1, {}, bytes));
  fabric.ends[0]->push(fabric.walker());
  std::vector<std::size_t> in_line;
  fabric.ends[1]->receive(fabric.walker(), 0, [&](const IncomingPacket& packet) {
    in_line.push_back(reinterpret_cast<std::uintptr_t>(packet.bytes.data()) % 64);
  });
  EXPECT_EQ(in_line, (std::vector<std::size_t>{64 - kHeaderBytes, 0}));
}

TEST(FabricWalk, ProgramsOfOneHostReachEachOtherByNumber) {
  TestFabric fabric(row_of_switches(1, 2));
  End& second = fabric.add_program(fabric.hosts[0]);
  for (const std::uint32_t range : {1u, 2u}) {
    ASSERT_TRUE(post_mark(*fabric.ends[1], fabric.lid(0), 0, {.flow = range}, 64,
                          Qpn(range << kQpnRangeBits | 5)));
  }
  fabric.ends[1]->push(fabric.walker());
  EXPECT_EQ(fabric.receive(0).at(0).flow, 1u);
  EXPECT_EQ(fabric.receive(2).at(0).flow, 2u);
  // And within the host.
  ASSERT_TRUE(post_mark(second, fabric.lid(0), 0, {.flow = 3}, 64, Qpn(1u << kQpnRangeBits)));
  second.push(fabric.walker());
  EXPECT_EQ(fabric.receive(0).at(0).flow, 3u);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, ManagementComesToTheDaemonWithItsNodeAndPort) {
  TestFabric fabric(row_of_switches(2, 2));
  End daemon(fabric.image(), 0);
  const NodeIndex last_switch = fabric.image().station_of({1, 0});
  ASSERT_TRUE(post_mark(*fabric.ends[0], lid_of(last_switch), 0, {.flow = 1}, 300, Qpn(0)));
  ASSERT_TRUE(post_mark(*fabric.ends[0], fabric.lid(1), 0, {.flow = 2}, 300, Qpn(1)));
  fabric.ends[0]->push(fabric.walker());
  std::map<NodeIndex, unsigned> port_by_node;
  daemon.receive(fabric.walker(), 0, [&](const IncomingPacket& packet) {
    port_by_node[packet.at_node] = packet.at_port;
  });
  EXPECT_EQ(port_by_node, (std::map<NodeIndex, unsigned>{{last_switch, 1},  // Between switches.
                                                         {fabric.hosts[1], kCablePort}}));

  // And back, as the switch.
  const std::array<ByteSpan, 1> pieces{std::as_bytes(std::span("an answer"))};
  ASSERT_TRUE(daemon.reserve(0, 300));
  daemon.post({.pieces = pieces,
               .dlid = fabric.lid(0),
               .destination = Qpn(1u << kQpnRangeBits),
               .as_node = last_switch});
  daemon.push(fabric.walker());
  EXPECT_EQ(fabric.receive(0).size(), 1);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, NoCreditsNoPacketsAndNoneIsLost) {
  ImageOptions options;
  options.block_capacity = 8;
  TestFabric fabric(row_of_switches(3, 2), options);
  std::uint32_t sent = 0;
  while (fabric.send(0, 1, {.number = sent}, 200)) {
    ++sent;
    fabric.ends[0]->push(fabric.walker());
  }
  // A packet takes 4 blocks, a buffer holds 2: on the program's links, the cables to, between and
  // from the switches.
  EXPECT_EQ(sent, 2 * 6u);
  EXPECT_FALSE(fabric.ends[0]->take_credit_news());
  EXPECT_TRUE(faults_of(fabric.image()).empty());
  std::uint32_t received = 0;
  while (fabric.ends[1]->has_packets()) {
    for (const Mark& mark : fabric.receive(1)) EXPECT_EQ(mark.number, received++);
  }
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(fabric.ends[0]->take_credit_news());
  EXPECT_TRUE(fabric.send(0, 1, {.number = sent}, 200));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_EQ(fabric.receive(1).size(), 1);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, AFullLaneHoldsUpNoOther) {
  ImageOptions options;
  options.block_capacity = 8;
  TestFabric fabric(row_of_switches(1, 2), options);
  set_lanes(fabric.image(), 15);
  std::uint32_t sent = 0;
  while (fabric.send(0, 1, {.number = sent}, 200, 1)) {
    ++sent;
    fabric.ends[0]->push(fabric.walker());
  }
  for (const std::uint8_t sl : std::initializer_list<std::uint8_t>{0, 2, 14}) {
    EXPECT_TRUE(fabric.send(0, 1, {.flow = 1u + sl}, 200, sl));
  }
  fabric.ends[0]->push(fabric.walker());
  std::map<std::uint32_t, unsigned> by_flow;
  while (fabric.ends[1]->has_packets()) {
    for (const Mark& mark : fabric.receive(1)) ++by_flow[mark.flow];
  }
  EXPECT_EQ(by_flow, (std::map<std::uint32_t, unsigned>{{0, sent}, {1, 1}, {3, 1}, {15, 1}}));
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, ASlotIsWaitedFor) {
  ImageOptions options;
  TestFabric fabric(row_of_switches(1, 2), options);
  std::uint32_t sent = 0;
  while (fabric.send(0, 1, {.number = sent}, 24)) ++sent;
  EXPECT_EQ(sent, kSlotsOfAnEnd);
  fabric.ends[0]->push(fabric.walker());
  EXPECT_FALSE(fabric.send(0, 1, {.number = sent}, 24));
  EXPECT_EQ(fabric.receive(1).size(), 64);
  EXPECT_TRUE(fabric.ends[0]->take_credit_news());
  EXPECT_TRUE(fabric.send(0, 1, {.number = sent}, 24));
}

TEST(FabricWalk, ReservationsAreGivenBack) {
  ImageOptions options;
  options.block_capacity = 8;
  TestFabric fabric(row_of_switches(1, 2), options);
  End& end = *fabric.ends[0];
  for (int round = 0; round < 1000; ++round) {
    ASSERT_TRUE(end.reserve(0, 200));
    ASSERT_TRUE(end.reserve(0, 200));
    ASSERT_FALSE(end.reserve(0, 200));
    end.release(0, 200);
    end.release(0, 200);
  }
}

TEST(FabricWalk, WhatHasNoRouteIsDiscardedAndCounted) {
  TestFabric fabric(row_of_switches(1, 2));
  Tables tables(fabric.image());
  ASSERT_TRUE(post_mark(*fabric.ends[0], Lid(999), 0, {}, 64));
  tables.set_route(1, Lid(998), fabric.image().link(1).start_port);
  ASSERT_TRUE(post_mark(*fabric.ends[0], Lid(998), 0, {}, 64));
  tables.set_route(1, Lid(997), 36);
  ASSERT_TRUE(post_mark(*fabric.ends[0], Lid(997), 0, {}, 64));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_EQ(tables.counts(1, fabric.image().link(1).start_port).rcv_switch_relay_errors(), 3u);
  EXPECT_EQ(tables.counts(1, fabric.image().link(1).start_port).in.packets, 3u);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, PortsCountPacketsAndWords) {
  TestFabric fabric(row_of_switches(1, 2));
  ASSERT_TRUE(fabric.send(0, 1, {}, 64));
  ASSERT_TRUE(fabric.send(0, 1, {}, 4096));
  fabric.ends[0]->push(fabric.walker());
  fabric.receive(1);
  Tables tables(fabric.image());
  const DataCounts receiver = tables.counts(fabric.hosts[1], kCablePort);
  EXPECT_EQ(receiver.in.packets, 2u);
  EXPECT_EQ(receiver.in.words, (64u + 4096u) / 4);
  EXPECT_EQ(receiver.out.packets, 0u);
  EXPECT_EQ(tables.counts(fabric.hosts[0], kCablePort).out.packets, 2u);
}

TEST(FabricWalk, ALinkThatIsDownDiscards) {
  TestFabric fabric(row_of_switches(2, 2));
  Tables tables(fabric.image());
  fabric.shared->set_link_up(*fabric.mover, 0, false);
  ASSERT_TRUE(fabric.send(0, 1, {}));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_FALSE(fabric.ends[1]->has_packets());
  EXPECT_EQ(tables.counts(1, 1).xmit_discards(), 1u);
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
  fabric.shared->set_link_up(*fabric.mover, 0, true);
  ASSERT_TRUE(fabric.send(0, 1, {}));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_TRUE(fabric.ends[1]->has_packets());
}

TEST(FabricWalk, DataPassActivePortsOnly) {
  TestFabric fabric(row_of_switches(2, 2));
  const auto arrives = [&] {
    EXPECT_TRUE(fabric.send(0, 1, {}));
    fabric.ends[0]->push(fabric.walker());
    return !fabric.receive(1).empty();
  };
  const auto set = [&](NodeIndex node, wire::PortState state) {
    fabric.shared->set_port_state(*fabric.mover, node, 1, state);
  };
  set(1, wire::PortState::armed);
  EXPECT_FALSE(arrives());
  set(1, wire::PortState::active);
  set(2, wire::PortState::armed);
  EXPECT_TRUE(arrives());
  set(2, wire::PortState::initialize);
  EXPECT_FALSE(arrives());
  EXPECT_TRUE(faults_when_empty(fabric.image()).empty());
}

TEST(FabricWalk, APacketLargerThanTheNeighborsMtuIsDiscarded) {
  TestFabric fabric(row_of_switches(2, 2));
  Tables tables(fabric.image());
  tables.set_output(1, 1, 0, Mtu::k1024, wire::VirtualLanes::fifteen);
  ASSERT_TRUE(fabric.send(0, 1, {.number = 0}, 1024 + 126));
  ASSERT_TRUE(fabric.send(0, 1, {.number = 1}, 1024 + 130));
  fabric.ends[0]->push(fabric.walker());
  EXPECT_EQ(fabric.receive(1).size(), 1);
  EXPECT_EQ(tables.counts(1, 1).xmit_discards(), 1u);
}

TEST(FabricWalk, ADeadReceiversPacketsAreDiscardedAndItsEndIsTakenAgain) {
  ImageOptions options;
  options.block_capacity = 16;
  options.ends_max = 4;  // The daemon's, two programs', and one.
  TestFabric fabric(row_of_switches(1, 2), options);
  std::uint32_t sent = 0;
  while (fabric.send(0, 1, {.number = sent}, 200)) {
    ++sent;
    fabric.ends[0]->push(fabric.walker());
  }
  const std::uint32_t end = fabric.ends[1]->index();
  fabric.ends[1].reset();
  fabric.shared->bury_end(*fabric.mover, end);
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
  const NodeRecord& host = fabric.image().node(fabric.hosts[1]);
  const PortPlace place{host.topology_node, host.topology_port};
  EXPECT_TRUE(fabric.shared->ends().take(place).has_value());
  EXPECT_TRUE(fabric.shared->ends().take(place).has_value()) << "the one that was buried";
  EXPECT_EQ(fabric.shared->ends().take(place).error().code, EAGAIN);
  EXPECT_EQ(fabric.shared->ends().take({0, 0}).error().code, EINVAL);
}

TEST(FabricWalk, AHostTurnsPacketsRoundWhileItsPortIsActive) {
  TestFabric fabric(row_of_switches(1, 2));
  const NodeIndex host = fabric.hosts[0];
  for (const auto state :
       {wire::PortState::active, wire::PortState::armed, wire::PortState::down}) {
    fabric.shared->set_port_state(*fabric.mover, host, kCablePort, state);
    ASSERT_TRUE(fabric.send(0, 0, {}));
    fabric.ends[0]->push(fabric.walker());
    EXPECT_EQ(fabric.receive(0).size(), state == wire::PortState::active ? 1u : 0u);
  }
  EXPECT_EQ(fabric.shared->tables().counts(host, kCablePort).out.inactive_discards, 2u);
  for (const std::string& fault : faults_when_empty(fabric.image())) ADD_FAILURE() << fault;
}

TEST(FabricWalk, ADeadSendersPacketsTravelOnAndItsPoolIsFreeWhenTheyHaveArrived) {
  ImageOptions options;
  options.ends_max = 3;
  TestFabric fabric(row_of_switches(1, 2), options);
  ASSERT_TRUE(fabric.send(0, 1, {.number = 0}));
  fabric.ends[0]->push(fabric.walker());
  ASSERT_TRUE(fabric.send(0, 1, {.number = 1})) << "posted, not pushed";
  fabric.shared->bury_end(*fabric.mover, fabric.ends[0]->index());
  const NodeRecord& host = fabric.image().node(fabric.hosts[0]);
  const PortPlace place{host.topology_node, host.topology_port};
  EXPECT_FALSE(fabric.shared->ends().take(place).has_value());
  EXPECT_EQ(fabric.receive(1).size(), 1);
  EXPECT_TRUE(fabric.shared->ends().take(place).has_value());
}

TEST(FabricWalk, AnEndWithPacketsThatWereLeftOverIsNotTaken) {
  ImageOptions options;
  options.ends_max = 3;
  TestFabric fabric(row_of_switches(1, 2), options);
  const LinkIndex link = fabric.image().to_end(fabric.ends[1]->index());
  fabric.shared->bury_end(*fabric.mover, fabric.ends[1]->index());
  // As a walk leaves it that has moved many packets for others.
  fabric.image().link(link).gate = Gate(0).with_news().word();
  const NodeRecord& host = fabric.image().node(fabric.hosts[1]);
  const PortPlace place{host.topology_node, host.topology_port};
  EXPECT_FALSE(fabric.shared->ends().take(place).has_value());
  fabric.walker().start(link);
  EXPECT_TRUE(fabric.shared->ends().take(place).has_value());
}

}  // namespace
}  // namespace verbatim::fabric

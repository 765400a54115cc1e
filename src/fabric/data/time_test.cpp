#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/walk/repair.h"

/// Pacing, lifetimes and lengths, with a clock that the test turns.
namespace verbatim::fabric {
namespace {

struct ClockPolicy : SharedPolicy {
  static inline TimeNs time = 0;
  static TimeNs now() { return time; }
};

/// Two programs at both ends of a row of switches; one walker with the test's clock.
struct TimedFabric {
  explicit TimedFabric(unsigned switches, ImageOptions options = {})
      : fabric(row_of_switches(switches, 2), options) {
    ClockPolicy::time = kSecond;
  }
  const Image& image() const { return fabric.image(); }
  LinkRecord& link_from(NodeIndex node, unsigned port) {
    return image().link(image().port(image().node(node), port).out);
  }
  void push(std::size_t from = 0) { fabric.ends[from]->push(walker); }
  void pass(TimeNs time) {
    ClockPolicy::time += time;
    walker.run_due(ClockPolicy::time);
  }
  std::vector<Mark> receive(std::size_t at = 1) {
    std::vector<Mark> marks;
    fabric.ends[at]->receive(walker, ClockPolicy::time, [&](const IncomingPacket& packet) {
      marks.push_back(mark_of(packet));
    });
    return marks;
  }

  TestFabric fabric;
  ClockPolicy policy;
  Walker<ClockPolicy> walker{fabric.image(), policy, fabric.mover->index()};
};

TEST(FabricTime, APacedLinkReachesItsRateHoweverLateItIsServed) {
  TimedFabric timed(2);
  timed.link_from(1, 1).ps_per_byte = 1000;  // 1 GB/s.
  unsigned sent = 0;
  unsigned received = 0;
  const TimeNs begin = ClockPolicy::time;
  while (received < 1000) {
    while (timed.fabric.send(0, 1, {.number = sent}, 1000)) ++sent;
    timed.push();
    received += static_cast<unsigned>(timed.receive().size());
    timed.pass(37 * kMicrosecond);  // 37 packets' time.
  }
  const TimeNs took = ClockPolicy::time - begin;
  EXPECT_NEAR(static_cast<double>(took), received * 1000.0, 50 * kMicrosecond);
}

TEST(FabricTime, AnIdlePacedLinkStartsNow) {
  TimedFabric timed(2);
  timed.link_from(1, 1).ps_per_byte = 1'000'000;  // A byte a microsecond.
  ASSERT_TRUE(timed.fabric.send(0, 1, {.number = 0}, 1000));
  ASSERT_TRUE(timed.fabric.send(0, 1, {.number = 1}, 1000));
  timed.push();
  EXPECT_EQ(timed.receive().size(), 1u);
  timed.pass(900 * kMicrosecond);
  EXPECT_EQ(timed.receive().size(), 0u);
  timed.pass(100 * kMicrosecond);
  EXPECT_EQ(timed.receive().size(), 1u);
  timed.pass(10 * kSecond);  // It gathers no time meanwhile.
  for (std::uint32_t i = 2; i < 5; ++i) ASSERT_TRUE(timed.fabric.send(0, 1, {.number = i}, 1000));
  timed.push();
  EXPECT_EQ(timed.receive().size(), 1u);
}

TEST(FabricTime, EachLinkIsServedAtItsTime) {
  TimedFabric timed(2);
  timed.link_from(1, 1).ps_per_byte = 1'000'000;  // A byte a microsecond,
  timed.link_from(2, 1).ps_per_byte = 3'000'000;  // and a third of that on the way back.
  for (const std::size_t from : {0, 1}) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(timed.fabric.send(from, 1 - from, {.number = i}, 1000));
    }
    timed.push(from);
    EXPECT_EQ(timed.receive(1 - from).size(), 1u);
  }
  timed.pass(1 * kMillisecond);
  EXPECT_EQ(timed.receive(1).size(), 1u);
  EXPECT_EQ(timed.receive(0).size(), 0u);
  timed.pass(2 * kMillisecond);
  EXPECT_EQ(timed.receive(0).size(), 1u);
}

TEST(FabricTime, TheHeadOfAQueueIsDiscardedAfterItsLife) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  timed.link_from(2, 2).hoq_life_us = 1000;
  // The last switch's cable leads to the receiver, which takes nothing.
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  EXPECT_EQ(sent, 5 * 2u);
  timed.pass(900 * kMicrosecond);
  EXPECT_EQ(timed.link_from(2, 2).counters.hoq_discards, 0u);
  timed.pass(200 * kMicrosecond);
  EXPECT_EQ(timed.link_from(2, 2).counters.hoq_discards, 1u) << "the next one's life begins";
  timed.pass(1100 * kMicrosecond);
  EXPECT_EQ(timed.link_from(2, 2).counters.hoq_discards, 2u);
  EXPECT_TRUE(faults_of(timed.image()).empty());
}

TEST(FabricTime, AProgramThatTakesNothingIsPassedOverIfItsHostHasAnother) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  timed.fabric.add_program(timed.fabric.hosts[1]);
  constexpr Qpn kOther(2u << kQpnRangeBits);
  const auto send_to_other = [&] {
    return post_mark(*timed.fabric.ends[0], timed.fabric.lid(1), 0, {}, 200, kOther);
  };
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(499 * kMillisecond);
  EXPECT_FALSE(send_to_other()) << "all buffers on the way are full";
  timed.pass(2 * kMillisecond);
  ASSERT_TRUE(send_to_other());
  timed.push();
  EXPECT_EQ(timed.receive(2).size(), 1u);
  ASSERT_TRUE(timed.fabric.send(0, 1, {.number = sent++}, 200));
  timed.push();
  EXPECT_TRUE(timed.fabric.ends[0]->reserve(0, 200)) << "it is discarded without a wait";
  EXPECT_EQ(timed.receive(1).size(), 2u) << "it runs again";
  const LinkRecord& to_stopped = timed.image().link(timed.image().to_end(2));
  EXPECT_EQ(to_stopped.counters.hoq_discards, sent - 2);
  ASSERT_TRUE(timed.fabric.send(0, 1, {.number = sent}, 200));
  timed.push();
  EXPECT_EQ(timed.receive(1).size(), 1u);
  EXPECT_TRUE(faults_of(timed.image()).empty());
}

TEST(FabricTime, AProgramThatIsTheOnlyOneAgainLosesNothing) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  timed.fabric.add_program(timed.fabric.hosts[1]);
  timed.fabric.shared->bury_end(*timed.fabric.mover, 3);
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(kSecond);
  std::size_t received = 0;
  while (const std::size_t more = timed.receive().size()) received += more;
  EXPECT_EQ(received, sent);
}

TEST(FabricTime, AStoppedProgramThatWasPassedOverWaitsWhenItIsTheOnlyOneAgain) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  timed.fabric.add_program(timed.fabric.hosts[1]);
  const LinkRecord& to_stopped = timed.image().link(timed.image().to_end(2));
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(501 * kMillisecond);
  const std::uint64_t discards = to_stopped.counters.hoq_discards;
  EXPECT_EQ(discards, sent - 2);
  timed.fabric.shared->bury_end(*timed.fabric.mover, 3);
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(kSecond);
  std::size_t received = 0;
  while (const std::size_t more = timed.receive().size()) received += more;
  EXPECT_EQ(received, sent - discards);
}

TEST(FabricTime, ANewProgramDoesNotWaitForAStoppedOne) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  ClockPolicy::time = monotonic_now();  // As `take_end` reads it.
  for (unsigned i = 0; timed.fabric.send(0, 1, {.number = i}, 200); ++i) timed.push();
  timed.pass(60 * kSecond);
  EXPECT_FALSE(timed.fabric.ends[0]->reserve(0, 200));
  const NodeRecord& host = timed.image().node(timed.fabric.hosts[1]);
  ASSERT_TRUE(
      timed.fabric.shared->take_end(*timed.fabric.mover, {host.topology_node, host.topology_port}));
  timed.pass(60 * kSecond);
  EXPECT_TRUE(timed.fabric.ends[0]->reserve(0, 200));
}

TEST(FabricTime, APacketIsDiscardedAfterItsLifeInASwitch) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  Tables(timed.image()).set_packet_lifetime(2, 1000);
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(1100 * kMicrosecond);
  EXPECT_EQ(timed.link_from(2, 2).counters.lifetime_discards, 2u)
      << "all that it has in its buffer";
  EXPECT_EQ(timed.link_from(1, 1).counters.lifetime_discards, 0u);
  EXPECT_TRUE(faults_of(timed.image()).empty());
}

TEST(FabricTime, WaitingForCreditsIsCountedAtEachHopUpToTheSender) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(5 * kMillisecond);
  const std::array<std::pair<NodeIndex, unsigned>, 3> hops{
      {{timed.fabric.hosts[0], kCablePort}, {1, 1}, {2, 2}}};
  for (const auto& [node, port] : hops) {
    const Tables tables(timed.image());
    const auto out = tables.counts(node, port, ClockPolicy::time).out;
    EXPECT_EQ(out.wait_ns, 5 * kMillisecond) << "while it lasts, at node " << node;
    EXPECT_EQ(out.lane_wait_ns[0], 5 * kMillisecond);
    EXPECT_EQ(out.lane_wait_ns[1], 0u);
  }
  std::size_t received = timed.receive().size();
  for (const auto& [node, port] : hops) {
    const auto out = Tables(timed.image()).counts(node, port).out;
    EXPECT_EQ(out.wait_ns, 5 * kMillisecond);
    EXPECT_EQ(out.lane_wait_ns[0], 5 * kMillisecond);
  }
  while (const std::size_t more = timed.receive().size()) received += more;
  EXPECT_EQ(received, sent) << "none is lost";
}

TEST(FabricTime, ARepairEndsTheWaitForCreditsThatItFinds) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  LinkRecord& last_cable = timed.link_from(2, 2);
  // Two packets fit into each buffer: two of the receiver, two of its host, one waits for the
  // cable.
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_TRUE(timed.fabric.send(0, 1, {.number = i}, 200));
    timed.push();
  }
  ASSERT_NE(last_cable.blocked_at, 0u);
  timed.pass(5 * kMillisecond);
  constexpr std::uint32_t kDead = 7;
  last_cable.gate = Gate(0).with_owner(kDead).word();
  std::size_t received = timed.receive().size();
  timed.walker.repair([](std::uint32_t mover) { return mover == kDead; });
  timed.pass(kSecond);
  EXPECT_EQ(Tables(timed.image()).counts(2, 2, ClockPolicy::time).out.wait_ns, 5 * kMillisecond);
  while (const std::size_t more = timed.receive().size()) received += more;
  EXPECT_EQ(received, 5u);
  EXPECT_TRUE(faults_when_empty(timed.image()).empty());
}

TEST(FabricTime, ALongCableDelays) {
  TimedFabric timed(2);
  timed.link_from(1, 1).cable = CableTraits{.delay_ns = 500};
  ASSERT_TRUE(timed.fabric.send(0, 1, {}, 64));
  timed.push();
  EXPECT_EQ(timed.receive().size(), 0u);
  timed.pass(499);
  EXPECT_EQ(timed.receive().size(), 0u);
  timed.pass(1);
  EXPECT_EQ(timed.receive().size(), 1u);
}

}  // namespace
}  // namespace verbatim::fabric

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
  void push() { fabric.ends[0]->push(walker); }
  void pass(TimeNs time) {
    ClockPolicy::time += time;
    walker.run_due(ClockPolicy::time);
  }
  std::vector<Mark> receive() {
    std::vector<Mark> marks;
    fabric.ends[1]->receive(walker, ClockPolicy::time, [&](const IncomingPacket& packet) {
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

TEST(FabricTime, WaitingForCreditsIsCounted) {
  ImageOptions options;
  options.block_capacity = 8;
  TimedFabric timed(2, options);
  unsigned sent = 0;
  for (; timed.fabric.send(0, 1, {.number = sent}, 200); ++sent) timed.push();
  timed.pass(5 * kMillisecond);
  timed.receive();
  EXPECT_EQ(Tables(timed.image()).counts(2, 2).out.wait_ns, 5 * kMillisecond);
}

TEST(FabricTime, ALongCableDelays) {
  TimedFabric timed(2);
  timed.link_from(1, 1).delay_ns = 500;
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

#include "fabric/keeper/trunk_end.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/image/used_slots.h"
#include "wire/ib/bth.h"
#include "wire/net/lrh.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kPacketBytes = wire::Lrh::kSize + wire::Bth::kSize + 4 + 4;
constexpr NodeIndex kSwitch = 1;
constexpr unsigned kTrunkPort = 36;
constexpr Lid kFar{100};  // Of the first host of the other fabric.

/// A fabric of a switch and two hosts, whose routes to `kFar` lead into the trunk; its own first
/// host has this LID for the other one.
struct Side {
  explicit Side(ImageOptions options = {}) : fabric(row_of_switches(1, 2), options) {
    trunk = std::make_unique<TrunkEnd>(*fabric.shared, *fabric.mover,
                                       fabric.shared->ends().take_trunk({0, kTrunkPort}).value(),
                                       UniqueFd());
  }
  void set_state(wire::PortState state) {
    fabric.shared->set_port_state(*fabric.mover, kSwitch, kTrunkPort, state);
  }
  void begin() {
    set_state(wire::PortState::down);
    trunk->begin_session();
    set_state(wire::PortState::active);
  }
  /// From the first host's program. False: it lacks credits.
  bool send(std::uint32_t number, std::uint8_t lane = 0) {
    End& end = *fabric.ends[0];
    if (!end.reserve(lane, kPacketBytes)) return false;
    std::array<std::byte, kPacketBytes> packet{};
    encode(
        wire::Lrh{
            .service_level = lane, .dlid = kFar, .length_words = kPacketBytes / 4, .slid = Lid{1}},
        std::span(packet).first<wire::Lrh::kSize>());
    encode(wire::Bth{.pkey = kDefaultPKey, .dest_qp = kNumber},
           std::span(packet).subspan<wire::Lrh::kSize, wire::Bth::kSize>());
    store_be(&packet[wire::Lrh::kSize + wire::Bth::kSize], number);
    const ByteSpan bytes(packet);
    end.post({.pieces = std::span(&bytes, 1),
              .dlid = kFar,
              .service_level = lane,
              .lane = lane,
              .destination = kNumber});
    end.push(fabric.walker());
    return true;
  }
  std::vector<std::uint32_t> receive() {
    std::vector<std::uint32_t> numbers;
    while (fabric.ends[0]->receive(fabric.walker(), 1, [&](const IncomingPacket& packet) {
      numbers.push_back(load_be<std::uint32_t>(&packet.bytes[wire::Lrh::kSize + wire::Bth::kSize]));
    }) != 0) {
    }
    return numbers;
  }

  static constexpr Qpn kNumber{1u << kQpnRangeBits};
  TestFabric fabric;
  std::unique_ptr<TrunkEnd> trunk;
};

struct TrunkEnds : testing::Test {
  void connect() {
    a.begin();
    b.begin();
    Tables(a.fabric.image()).set_route(kSwitch, kFar, kTrunkPort);
    Tables tables(b.fabric.image());
    tables.set_lid(b.fabric.hosts[0], kFar, 0);
    tables.set_route(kSwitch, kFar, 1);
  }
  /// What stands at A's end goes to B; B tells its limits. Returns how many packets crossed.
  std::size_t cross() {
    std::size_t count = 0;
    a.trunk->set_peer_limits(b.trunk->limits());
    count = a.trunk->take(1, 1000, [&](ByteSpan packet) { b.trunk->post(packet); });
    b.trunk->push();
    return count;
  }
  void TearDown() override {
    for (const Side* side : {&a, &b}) {
      for (const std::string& fault : faults_when_empty(side->fabric.image())) {
        ADD_FAILURE() << fault;
      }
    }
  }
  static constexpr ImageOptions kSmall{.block_capacity = 16};
  static constexpr std::uint32_t kLimitAtFirst = 3 * 16;  // The port's buffer, and the trunk's own.
  Side a{kSmall};
  Side b{kSmall};
};

TEST_F(TrunkEnds, PacketsCrossInOrder) {
  connect();
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(a.send(i));
  EXPECT_EQ(cross(), 5u);
  EXPECT_EQ(b.receive(), (std::vector{0u, 1u, 2u, 3u, 4u}));
}

TEST_F(TrunkEnds, NothingLeavesBeforeThePeerHasToldItsLimits) {
  connect();
  ASSERT_TRUE(a.send(7));
  EXPECT_EQ(a.trunk->take(1, 1000, [](ByteSpan) {}), 0u);
  EXPECT_EQ(cross(), 1u);
  EXPECT_EQ(b.receive(), std::vector{7u});
}

/// What has no credits waits at the sender, and nothing is lost.
TEST_F(TrunkEnds, CreditsSpanBothFabrics) {
  connect();
  std::uint32_t sent = 0;
  std::size_t crossed = 0;
  for (int i = 0; i < 200; ++i) {
    if (a.send(sent)) ++sent;
    crossed += cross();
  }
  EXPECT_LT(sent, 200u);
  EXPECT_LT(crossed, sent);
  EXPECT_EQ(cross(), 0u);
  std::vector<std::uint32_t> received;
  for (auto more = b.receive(); !more.empty(); more = b.receive()) {
    received.insert(received.end(), more.begin(), more.end());
    (void)cross();
  }
  ASSERT_EQ(received.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) EXPECT_EQ(received[i], i);
}

TEST_F(TrunkEnds, ALaneThatWaitsDoesNotHoldUpAnother) {
  connect();
  for (const Side* side : {&a, &b}) set_lanes(side->fabric.image(), 2);
  std::uint32_t sent = 0;
  for (int i = 0; i < 200; ++i) {
    sent += a.send(sent) ? 1 : 0;
    (void)cross();
  }
  ASSERT_TRUE(a.send(sent, 1));
  EXPECT_EQ(cross(), 1u);
  const auto first = b.receive();
  EXPECT_EQ(std::ranges::count(first, sent), 1);
  EXPECT_LT(first.size(), sent);
  for (std::size_t more = 1; more != 0; more = b.receive().size()) (void)cross();
}

/// What waits here is bounded by what the peer was told.
TEST_F(TrunkEnds, APeerThatSendsMoreThanItMayLosesThat) {
  connect();
  a.trunk->set_peer_limits(b.trunk->limits());
  ASSERT_TRUE(a.send(1));
  std::vector<std::byte> packet;
  EXPECT_EQ(a.trunk->take(1, 1, [&](ByteSpan bytes) { packet.assign(bytes.begin(), bytes.end()); }),
            1u);
  for (int i = 0; i < 1000; ++i) b.trunk->post(packet);
  std::size_t received = 0;
  for (std::size_t more = 1; more != 0; received += more) {
    b.trunk->push();
    more = b.receive().size();
  }
  EXPECT_GE(received, kLimitAtFirst);
  EXPECT_LT(received, 2 * kLimitAtFirst);
}

TEST_F(TrunkEnds, WhatWaitsWhenASessionEndsIsLostAndItsCreditsAreNot) {
  connect();
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(a.send(i));
  a.trunk->set_peer_limits(b.trunk->limits());
  a.set_state(wire::PortState::down);
  a.trunk->end_session();
  EXPECT_EQ(cross(), 0u);
  a.begin();
  b.begin();
  EXPECT_EQ(cross(), 0u);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(a.send(42));
    ASSERT_EQ(cross(), 1u);
    ASSERT_EQ(b.receive(), std::vector{42u});
  }
}

/// A second session begins while packets of the first are in the peer's buffers.
TEST_F(TrunkEnds, PacketsOfAnEarlierSessionKeepTheirPlaceInTheBuffer) {
  connect();
  for (std::uint32_t i = 0; i < 200; ++i) {
    (void)a.send(i);
    (void)cross();
  }
  const trunk::Limits full = b.trunk->limits();
  b.begin();
  EXPECT_LT(b.trunk->limits()[0], full[0]);
  EXPECT_LT(b.trunk->limits()[0], kLimitAtFirst);
  (void)b.receive();
  EXPECT_EQ(b.trunk->limits()[0], kLimitAtFirst);
  a.set_state(wire::PortState::down);
  a.trunk->end_session();
}

/// The peer takes its cable out in the turn in which its last packets come.
TEST_F(TrunkEnds, PacketsThatHaveJustComeWhenASessionEndsCostNoCredits) {
  connect();
  std::vector<std::byte> packet;
  ASSERT_TRUE(a.send(1));
  a.trunk->set_peer_limits(b.trunk->limits());
  ASSERT_EQ(a.trunk->take(1, 1, [&](ByteSpan one) { packet.assign(one.begin(), one.end()); }), 1u);
  for (std::uint32_t i = 0; i < 2 * kLimitAtFirst; ++i) {
    b.trunk->post(packet);
    b.set_state(wire::PortState::down);
    b.trunk->end_session();
    b.begin();
    EXPECT_EQ(b.receive(), std::vector{1u});
    ASSERT_EQ(b.trunk->limits()[0], kLimitAtFirst);
  }
}

TEST_F(TrunkEnds, APacketWithoutBytesIsNotTaken) {
  connect();
  ASSERT_TRUE(a.send(1));
  for_each_used_slot(a.fabric.image(), [](Handle, Slot& slot, Where) { slot.bytes = 0; });
  a.trunk->set_peer_limits(b.trunk->limits());
  EXPECT_EQ(a.trunk->take(1, 1, [](ByteSpan) { ADD_FAILURE() << "nothing can be sent of it"; }),
            1u);
}

TEST_F(TrunkEnds, WhatComesToAPortThatIsNotArmedIsDroppedAndCredited) {
  connect();
  b.set_state(wire::PortState::initialize);
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(a.send(i));
    ASSERT_EQ(cross(), 1u);
  }
  EXPECT_TRUE(b.receive().empty());
  b.set_state(wire::PortState::armed);
  ASSERT_TRUE(a.send(100));
  ASSERT_EQ(cross(), 1u);
  EXPECT_EQ(b.receive(), std::vector{100u});
}

TEST_F(TrunkEnds, BytesThatAreNoPacketAreDropped) {
  connect();
  std::array<std::byte, 4096> bytes{};
  for (const std::size_t size : {1, 8, 20, 4096}) b.trunk->post(ByteSpan(bytes).first(size));
  b.trunk->push();
  EXPECT_TRUE(b.receive().empty());
}

TEST_F(TrunkEnds, APortWithACableTakesNone) {
  const Ends ends = a.fabric.shared->ends();
  EXPECT_EQ(ends.take_trunk({0, 1}).error().code, EBUSY);
  EXPECT_EQ(ends.take_trunk({0, kTrunkPort}).error().code, EBUSY);
  EXPECT_EQ(ends.take_trunk({0, 37}).error().code, EINVAL);
  EXPECT_EQ(ends.take_trunk({0, 0}).error().code, EINVAL);
  EXPECT_EQ(ends.take_trunk({1, 1}).error().code, EBUSY);
}

TEST_F(TrunkEnds, SleepsUntilThereIsSomethingForIt) {
  connect();
  (void)a.trunk->limits();
  a.trunk->push();
  a.trunk->set_peer_limits(b.trunk->limits());
  EXPECT_TRUE(a.trunk->begin_sleep(true));
  ASSERT_TRUE(a.send(1));
  EXPECT_FALSE(a.trunk->begin_sleep(true));
  EXPECT_TRUE(a.trunk->begin_sleep(false));  // It could not take the packet now.
  EXPECT_EQ(cross(), 1u);
  EXPECT_EQ(b.receive().size(), 1u);
}

}  // namespace
}  // namespace verbatim::fabric

#include "fabric/trunk/session.h"

#include <gtest/gtest.h>

#include "fabric/trunk/trunk_lab_for_test.h"

namespace verbatim::fabric::trunk {
namespace {

TEST(TrunkSession, BothComeUpOnceAndStayUp) {
  TrunkLab lab;
  lab.connect();
  EXPECT_TRUE(lab.a.session.is_up() && lab.b.session.is_up());
  EXPECT_EQ(lab.b.session.peer(), kAddresses[0]);
  lab.run(60 * kSecond);
  EXPECT_EQ(lab.a.ups + lab.b.ups, 2u);
  EXPECT_EQ(lab.a.downs + lab.b.downs, 0u);
}

TEST(TrunkSession, AnIdleOneSendsADatagramASecond) {
  TrunkLab lab;
  lab.connect();
  const std::uint64_t before = lab.sent;
  lab.run(60 * kSecond);
  EXPECT_LE(lab.sent - before, 2 * 60u);
}

TEST(TrunkSession, NothingIsSentWithoutAnOffer) {
  TrunkLab lab;
  lab.run(kSecond);
  EXPECT_EQ(lab.sent, 0u);
  EXPECT_EQ(lab.a.session.deadline(), kNever);
}

TEST(TrunkSession, ACableThatIsTakenOutEndsBothAtOnce) {
  TrunkLab lab;
  lab.connect();
  lab.a.session.set_offer(std::nullopt, lab.now);
  lab.run(kMillisecond);
  EXPECT_FALSE(lab.a.session.is_up());
  EXPECT_EQ(lab.b.downs, 1u);
  lab.run(10 * kSecond);
  EXPECT_EQ(lab.b.ups, 1u);
  lab.a.session.set_offer(kOffer, lab.now);
  lab.run(kSecond);
  EXPECT_TRUE(lab.a.session.is_up() && lab.b.session.is_up());
}

TEST(TrunkSession, SilenceEndsIt) {
  TrunkLab lab;
  lab.connect();
  lab.is_cut = true;
  lab.run(2 * kSecond);
  EXPECT_EQ(lab.a.downs + lab.b.downs, 0u);
  lab.run(3 * kSecond);
  EXPECT_EQ(lab.a.downs, 1u);
  EXPECT_EQ(lab.b.downs, 1u);
  lab.is_cut = false;
  lab.run(kSecond);
  EXPECT_TRUE(lab.a.session.is_up() && lab.b.session.is_up());
}

/// As one that was killed, and started again.
TEST(TrunkSession, APeerThatBeginsAnewEndsIt) {
  TrunkLab lab;
  lab.connect();
  TrunkLab::send(lab.b, 1);
  lab.a.session =
      Session({.random = std::mt19937_64(77), .node_guid = 1, .port = 36, .peer = kAddresses[1]});
  lab.a.session.set_offer(kOffer, lab.now);
  lab.run(kSecond);
  EXPECT_EQ(lab.b.downs, 1u);
  EXPECT_EQ(lab.b.ups, 2u);
  EXPECT_TRUE(lab.a.session.is_up());
  EXPECT_TRUE(lab.a.received.empty());  // What was in flight is lost, as on a cut cable.
  TrunkLab::send(lab.b, 2);
  lab.run(kSecond);
  EXPECT_EQ(lab.a.received, std::vector{2u});
}

/// Who cannot see datagrams does not know the sessions.
TEST(TrunkSession, AStrangerGetsNothingIn) {
  TrunkLab lab;
  lab.connect();
  const std::array<std::byte, 64> bytes{};
  const Hello hello{.from = 5, .node_guid = 3, .port = 1, .offer = kOffer};
  for (const SocketAddress& from : {kAddresses[0], kAddresses[2]}) {
    for (std::uint64_t to = 0; to < 100; ++to) {
      lab.inject(lab.b, {.to = to, .body = Packet{.bytes = bytes}}, from);
      lab.inject(lab.b, {.to = to, .body = Bye{}}, from);
      lab.inject(lab.b, {.to = to, .body = hello}, from);
    }
  }
  lab.run(kSecond);
  EXPECT_EQ(lab.b.downs, 0u);
  EXPECT_TRUE(lab.b.received.empty());
}

/// The side that has a peer's address takes nobody else's hello.
TEST(TrunkSession, OnlyTheConfiguredPeerIsHeard) {
  TrunkLab lab;
  lab.a.session.set_offer(kOffer, lab.now);
  lab.inject(lab.a, {.to = 0, .body = Hello{.from = 5, .offer = kOffer}}, kAddresses[2]);
  std::array<std::byte, kControlBytesMax> bytes;
  while (const auto outgoing = lab.a.session.next_datagram(bytes, lab.now)) {
    EXPECT_EQ(outgoing->to, kAddresses[1]);
  }
}

/// Each session has a number that its owner has drawn for it: who was told one knows no other.
TEST(TrunkSession, ASessionsNumberIsDrawnForIt) {
  std::vector<std::uint64_t> drawn{5, 3, 4};
  const auto draw = [&drawn] {
    const std::uint64_t number = drawn.back();
    drawn.pop_back();
    return number;
  };
  Session session({.random = draw, .node_guid = 1, .port = 1, .peer = kAddresses[1]});
  std::vector<std::uint64_t> told;
  for (TimeNs now = kSecond; now < 4 * kSecond; now += kSecond) {
    session.set_offer(kOffer, now);
    std::array<std::byte, kControlBytesMax> control;
    while (const auto outgoing = session.next_datagram(control, now)) {
      told.push_back(std::get<Hello>(decode(outgoing->bytes)->body).from);
    }
  }
  EXPECT_EQ(told, (std::vector<std::uint64_t>{4, 3, 5}));
}

TEST(TrunkSession, WhatAListenerPlaysAgainIsNotTaken) {
  TrunkLab lab;
  lab.connect();
  TrunkLab::send(lab.a, 1);
  lab.run(kSecond);
  lab.a.session.set_offer(std::nullopt, lab.now);
  lab.run(kSecond);
  lab.a.session.set_offer(kOffer, lab.now);
  lab.run(kSecond);
  for (const auto& bytes : lab.seen) {
    if (std::get_if<Packet>(&decode(bytes)->body) == nullptr) continue;
    (void)lab.b.session.on_datagram(bytes, kAddresses[0], lab.now);
  }
  EXPECT_EQ(lab.b.received, std::vector{1u});
}

TEST(TrunkSession, PacketsOfBothWaysComeInOrderEachOnce) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TrunkLab lab(seed, {.lost = 10, .doubled = 10, .late = 10});
    lab.connect();
    std::uint32_t from_a = 0;
    std::uint32_t from_b = 0;
    while (lab.a.received.size() < 3000 || lab.b.received.size() < 3000) {
      ASSERT_LT(lab.now, 100 * kSecond) << "seed " << seed;
      while (from_a < 3000 && lab.a.session.has_room(false)) TrunkLab::send(lab.a, from_a++);
      while (from_b < 3000 && lab.b.session.has_room(true)) TrunkLab::send(lab.b, from_b++, true);
      lab.run(20 * kMillisecond);
    }
    for (const auto* received : {&lab.b.received, &lab.a.received}) {
      ASSERT_EQ(received->size(), 3000u) << "seed " << seed;
      for (std::uint32_t i = 0; i < received->size(); ++i) ASSERT_EQ((*received)[i], i);
    }
    EXPECT_EQ(lab.a.downs + lab.b.downs, 0u) << "seed " << seed;
    EXPECT_GT(lab.a.session.repeated(), 0u);
  }
}

TEST(TrunkSession, AGapIsSentAgainWithoutWaitingForATimeout) {
  TrunkLab lab;
  lab.connect();
  lab.is_cut = true;
  TrunkLab::send(lab.a, 0);
  lab.run(0);
  lab.is_cut = false;
  TrunkLab::send(lab.a, 1);
  lab.run(kMillisecond);
  EXPECT_EQ(lab.b.received, (std::vector{0u, 1u}));
  EXPECT_EQ(lab.b.session.counts().missing, 1u);
}

TEST(TrunkSession, WithoutLossNothingIsSentTwice) {
  TrunkLab lab;
  lab.connect();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    if (!lab.a.session.has_room(false)) lab.run(kMillisecond);
    TrunkLab::send(lab.a, i);
  }
  lab.run(kSecond);
  EXPECT_EQ(lab.b.received.size(), 1000u);
  EXPECT_EQ(lab.a.session.repeated(), 0u);
}

TEST(TrunkSession, TheWindowIsBoundedAndKeepsRoomForManagement) {
  TrunkLab lab;
  lab.connect();
  lab.is_cut = true;
  std::uint32_t count = 0;
  while (lab.a.session.has_room(false)) TrunkLab::send(lab.a, count++);
  EXPECT_EQ(count, SendWindow::kDataMax);
  while (lab.a.session.has_room(true)) TrunkLab::send(lab.a, count++, true);
  EXPECT_EQ(count, SendWindow::kMax);
}

TEST(TrunkSession, LimitsAreToldWhenTheyHaveGrown) {
  TrunkLab lab;
  lab.connect();
  Limits limits{};
  limits[3] = 2048;
  lab.b.session.set_limits(limits);
  lab.run(kMillisecond);
  EXPECT_EQ(lab.a.session.peer_limits(), limits);
  const std::uint64_t before = lab.sent;
  limits[3] += 10;
  lab.b.session.set_limits(limits);
  lab.run(kMillisecond);
  EXPECT_EQ(lab.sent, before);
  limits[3] += 256;
  lab.b.session.set_limits(limits);
  lab.run(kMillisecond);
  EXPECT_EQ(lab.a.session.peer_limits(), limits);
}

}  // namespace
}  // namespace verbatim::fabric::trunk

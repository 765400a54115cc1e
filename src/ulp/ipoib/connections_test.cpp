#include "ulp/ipoib/connections.h"

#include <gtest/gtest.h>

#include "ulp/ipoib/bench_for_test.h"

/// Connected mode: each line is one input, and what comes of it.
namespace verbatim::ulp::ipoib {
namespace {

constexpr std::uint8_t kConnected = SenderBench::kConnected;
constexpr std::uint32_t kReceiveBytes = kConnectedMtu + 4;

/// The peer 10.9.0.2 takes connections, and has been sent a long packet.
struct ConnectedBench : SenderBench {
  ConnectedBench() : SenderBench(kConnected) {
    know_peer(kConnected);
    sent_first = packet("10.9.0.2", 60'000);
  }
  std::string sent_first;
};

TEST(IpoibConnections, LongPacketsWaitForTheConnectionShortOnesDoNot) {
  SenderBench ib(kConnected);
  ib.packet("10.9.0.2", 100);
  ib.next_hop("10.9.0.2", "10.9.0.2");
  EXPECT_EQ(
      ib.arp(Arp::Operation::reply, "10.9.0.2", 0x48, "10.9.0.1", SenderBench::kPeer, kConnected),
      "path to fe80::2:c903:31:78f2, connect 1 to QP 0x48");
  EXPECT_EQ(ib.path(0x50), "0800 100 to way 0x50 QP 0x48");
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "");
  EXPECT_EQ(ib.packet("10.9.0.2", 2044), "0800 2044 to way 0x50 QP 0x48");
  EXPECT_EQ(ib.connected(1, kReceiveBytes), "0800 60000 by connection 1");
  EXPECT_EQ(ib.packet("10.9.0.2", 100), "0800 100 by connection 1");
}

TEST(IpoibConnections, PeerOfDatagramsIsSentNoLongerOnes) {
  SenderBench ib(kConnected);
  ib.know_peer(0);
  EXPECT_EQ(ib.packet("10.9.0.2", 2044), "0800 2044 to way 0x50 QP 0x48");
  EXPECT_EQ(ib.packet("10.9.0.2", 2045), "2045 is longer than 2044 of 10.9.0.2");
  EXPECT_EQ(ib.sender.counters().too_long, 1u);
}

TEST(IpoibConnections, InterfaceOfDatagramsMakesNone) {
  SenderBench ib;
  ib.know_peer(kConnected);
  EXPECT_EQ(ib.packet("10.9.0.2", 2044), "0800 2044 to way 0x50 QP 0x48");
}

TEST(IpoibConnections, GroupsAndQuestionsGoByDatagrams) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  ib.packet("239.1.2.3", 100);
  ib.group("ff12:401b:ffff::f01:203", 9);
  EXPECT_EQ(ib.packet("239.1.2.3", 2044), "0800 2044 to group 0x9");
  EXPECT_EQ(ib.packet("239.1.2.3", 2045), "");
  EXPECT_EQ(ib.packet("255.255.255.255", 2045), "");
  EXPECT_EQ(ib.sender.counters().too_long, 2u);
  ib.now += 31 * kSecond;
  EXPECT_EQ(ib.packet("10.9.0.2", 100),
            "who has 10.9.0.2 to way 0x50 QP 0x48, 0800 100 by connection 1");
}

TEST(IpoibConnections, PeerMayTakeLessThanWe) {
  ConnectedBench ib;
  EXPECT_EQ(ib.connected(1, 16'388), "60000 is longer than 16384 of 10.9.0.2");
  EXPECT_EQ(ib.packet("10.9.0.2", 16'384), "0800 16384 by connection 1");
}

TEST(IpoibConnections, PrivateDataThatSaysNothingIsARefusal) {
  for (const std::size_t size : {0u, 4u, 196u}) {
    ConnectedBench ib;
    EXPECT_EQ(ib.connected(1, Packet(size)), "end 1, 60000 is longer than 2044 of 10.9.0.2")
        << size;
    EXPECT_EQ(ib.ended(1), "");
    EXPECT_EQ(ib.packet("10.9.0.2", 100), "0800 100 to way 0x50 QP 0x48");
  }
}

TEST(IpoibConnections, RefusedPeerIsOneOfDatagramsForAWhile) {
  ConnectedBench ib;
  EXPECT_EQ(ib.ended(1, true), "60000 is longer than 2044 of 10.9.0.2");
  ib.now += 59 * kSecond;
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000),
            "who has 10.9.0.2 to way 0x50 QP 0x48, 60000 is longer than 2044 of 10.9.0.2");
  ib.now += 2 * kSecond;
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "connect 2 to QP 0x48");
}

TEST(IpoibConnections, WhoCannotBeReachedIsAskedForAndTriedEverLaterThenCountsAsRefused) {
  ConnectedBench ib;
  const auto answers = [&] {
    ib.arp(Arp::Operation::reply, "10.9.0.2", 0x48, "10.9.0.1", SenderBench::kPeer, kConnected);
    return ib.path(0x50);
  };
  EXPECT_EQ(ib.ended(1), "close 0x50, who has 10.9.0.2 to group 0x1");
  EXPECT_EQ(answers(), "");  // Dropped, but nobody is told a length for minutes.
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "");
  ib.now += kSecond;
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "connect 2 to QP 0x48");
  EXPECT_EQ(ib.ended(2), "close 0x50, who has 10.9.0.2 to group 0x1");
  EXPECT_EQ(answers(), "");
  EXPECT_EQ(ib.sender.counters().unreachable, 3u);
  ib.now += 2 * kSecond;
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "connect 3 to QP 0x48");
  EXPECT_EQ(ib.ended(3), "60000 is longer than 2044 of 10.9.0.2");
}

TEST(IpoibConnections, LostConnectionIsMadeAnewByTheNextPacket) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  ib.sender.on_sent(PeerId{1}, ib.now);
  EXPECT_EQ(ib.ended(1), "close 0x50, who has 10.9.0.2 to group 0x1");
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "");
  EXPECT_EQ(
      ib.arp(Arp::Operation::reply, "10.9.0.2", 0x48, "10.9.0.1", SenderBench::kPeer, kConnected),
      "path to fe80::2:c903:31:78f2, connect 2 to QP 0x48");
  EXPECT_EQ(ib.connected(2, kReceiveBytes), "0800 60000 by connection 2");
}

TEST(IpoibConnections, WhatWaitsForAPeerThatBeginsAnewFollowsIt) {
  for (const bool is_heard_before : {false, true}) {
    ConnectedBench ib;
    const auto is_heard = [&] {
      return ib.arp(Arp::Operation::request, "10.9.0.2", 0x49, "10.9.0.2", SenderBench::kPeer,
                    kConnected);
    };
    if (is_heard_before) {
      EXPECT_EQ(is_heard(), "");
      EXPECT_EQ(ib.ended(1), "connect 2 to QP 0x49");
    } else {
      EXPECT_EQ(ib.ended(1), "close 0x50, who has 10.9.0.2 to group 0x1");
      EXPECT_EQ(is_heard(), "path to fe80::2:c903:31:78f2, connect 2 to QP 0x49");
    }
    EXPECT_EQ(ib.connected(2, kReceiveBytes), "0800 60000 by connection 2");
  }
}

TEST(IpoibConnections, RestartedPeerIsAnother) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  ib.arp(Arp::Operation::request, "10.9.0.2", 0x49, "10.9.0.2", SenderBench::kPeer, kConnected);
  EXPECT_EQ(ib.packet("10.9.0.2", 60'000), "connect 2 to QP 0x49");
  EXPECT_EQ(ib.connected(2, kReceiveBytes), "0800 60000 by connection 2");
}

TEST(IpoibConnections, PeerThatRestartsWithoutThemIsSentDatagrams) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  ib.arp(Arp::Operation::request, "10.9.0.2", 0x48, "10.9.0.2");
  EXPECT_EQ(ib.packet("10.9.0.2", 2045), "2045 is longer than 2044 of 10.9.0.2");
}

TEST(IpoibConnections, WhatWaitsAndWhatIsInFlightIsBounded) {
  ConnectedBench ib;
  for (std::size_t i = 0; i < 2 * Connections::kWaiting; ++i) ib.packet("10.9.0.2", 60'000);
  EXPECT_EQ(ib.sender.counters().no_room, Connections::kWaiting + 1);
  ib.connected(1, kReceiveBytes);
  for (std::uint32_t i = 0; i < Connections::kInFlight; ++i) ib.packet("10.9.0.2", 60'000);
  EXPECT_EQ(ib.sender.counters().no_room, 2 * Connections::kWaiting + 1);
  ib.sender.on_sent(PeerId{1}, ib.now);
  EXPECT_EQ(ib.packet("10.9.0.2", 100), "0800 100 by connection 1");
  EXPECT_EQ(ib.packet("10.9.0.2", 100), "");
}

/// A peer's full queue holds packets back, unless nothing of it leaves.
TEST(IpoibConnections, FullQueueIsToldUntilItMovesOrIsSlow) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  for (std::uint32_t i = 1; i < Connections::kInFlight; ++i) {
    EXPECT_FALSE(ib.sender.is_full());
    ib.packet("10.9.0.2", 60'000);
  }
  EXPECT_TRUE(ib.sender.is_full());
  EXPECT_EQ(ib.sender.counters().no_room, 0u);
  ib.sender.on_sent(PeerId{1}, ib.now);
  EXPECT_FALSE(ib.sender.is_full());
  ib.packet("10.9.0.2", 60'000);
  EXPECT_TRUE(ib.sender.is_full());
  EXPECT_LE(ib.sender.deadline(), ib.now + Connections::kSlow);
  EXPECT_EQ(ib.time(ib.now + Connections::kSlow - 1), "");
  EXPECT_TRUE(ib.sender.is_full());
  EXPECT_EQ(ib.time(ib.now + 1), "");
  EXPECT_FALSE(ib.sender.is_full());
  ib.packet("10.9.0.2", 60'000);
  EXPECT_FALSE(ib.sender.is_full());
  EXPECT_EQ(ib.sender.counters().no_room, 1u);
  ib.sender.on_sent(PeerId{1}, ib.now);
  ib.packet("10.9.0.2", 60'000);
  EXPECT_TRUE(ib.sender.is_full());
  ib.ended(1);
  EXPECT_FALSE(ib.sender.is_full());
}

TEST(IpoibConnections, NoAnswerAndNoProgressEndIt) {
  ConnectedBench ib;
  const auto answers = [&] {
    ib.arp(Arp::Operation::reply, "10.9.0.2", 0x48, "10.9.0.1", SenderBench::kPeer, kConnected);
    ib.path(0x50);
  };
  EXPECT_EQ(ib.time(ib.now + 10 * kSecond), "end 1, close 0x50, who has 10.9.0.2 to group 0x1");
  answers();
  ib.now += kSecond;
  ib.packet("10.9.0.2", 60'000);
  ib.connected(2, kReceiveBytes);
  EXPECT_EQ(ib.time(ib.now + 4 * kSecond), "");
  ib.sender.on_sent(PeerId{2}, ib.now);
  ib.packet("10.9.0.2", 60'000);
  EXPECT_EQ(ib.time(ib.now + 4 * kSecond), "");
  EXPECT_EQ(ib.time(ib.now + kSecond), "end 2, close 0x50, who has 10.9.0.2 to group 0x1");
}

TEST(IpoibConnections, IdleOneIsEnded) {
  ConnectedBench ib;
  ib.connected(1, kReceiveBytes);
  ib.sender.on_sent(PeerId{1}, ib.now);
  const std::string said = ib.time(ib.now + Connections::kIdle);
  EXPECT_NE(said.find("end 1"), std::string::npos) << said;
  EXPECT_TRUE(ib.sender.connections().shown().empty());
}

TEST(IpoibConnections, ThereAreSoManyTheOldestMakesRoom) {
  std::vector<Packet> released;
  SenderCounters counters;
  Connections connections(2044, released, counters);
  Outputs out;
  std::size_t ended = 0;
  for (unsigned i = 0; i < Connections::kConnectionsMax + 20; ++i) {
    const HardwareAddress to{.flags = kConnected, .qpn = Qpn(i + 2), .gid = SenderBench::kPeer};
    connections.send(to, address("10.9.0.2"), packet_to(address("10.9.0.2"), 3000), i, out);
    for (const Output& output : out) ended += std::holds_alternative<EndConnection>(output) ? 1 : 0;
    out.clear();
  }
  EXPECT_EQ(ended, 20u);
  EXPECT_EQ(connections.shown().size(), Connections::kConnectionsMax);
}

}  // namespace
}  // namespace verbatim::ulp::ipoib

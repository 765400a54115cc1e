#include "agent/management/early_requests.h"

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

constexpr ServiceId kPort = wire::service_id_of(PortSpace::tcp, 7000);
constexpr TimeNs kNow = 5'000 * kMillisecond;

/// Runs a step at `now`; returns how many were served and how many refused.
std::pair<int, int> step(EarlyRequests& requests, TimeNs now, bool somebody_listens = false) {
  std::pair<int, int> count;
  requests.step(
      now,
      [&](const EarlyRequest&) {
        count.first += somebody_listens ? 1 : 0;
        return somebody_listens;
      },
      [&](const EarlyRequest&) { ++count.second; });
  return count;
}

EarlyRequest from(std::uint8_t last) {
  EarlyRequest request;
  request.peer = roce_path(SocketAddress::ipv4({10, 0, 0, last}, kRocePort));
  return request;
}

using Counts = std::pair<int, int>;

TEST(EarlyRequests, AreRefusedWhenTheirTimeIsOver) {
  EarlyRequests requests;
  EXPECT_EQ(requests.next_deadline(), kNever);
  ASSERT_TRUE(requests.add(kPort, {}, kNow));
  EXPECT_EQ(requests.next_deadline(), kNow + EarlyRequests::kTimeout);
  EXPECT_EQ(step(requests, kNow + EarlyRequests::kTimeout - 1), (Counts{0, 0}));
  EXPECT_EQ(step(requests, kNow + EarlyRequests::kTimeout), (Counts{0, 1}));
  EXPECT_EQ(requests.next_deadline(), kNever);
}

TEST(EarlyRequests, AreServedOnceSomebodyListens) {
  EarlyRequests requests;
  ASSERT_TRUE(requests.add(kPort, {}, kNow));
  EXPECT_EQ(step(requests, kNow + 1, true), (Counts{1, 0}));
  EXPECT_EQ(step(requests, kNow + 2, true), (Counts{0, 0}));
}

TEST(EarlyRequests, WaitLongerForAPortThatHadAListener) {
  EarlyRequests requests;
  requests.on_listener_gone(ServiceRange::of(kPort), kNow);
  ASSERT_TRUE(requests.add(kPort, {}, kNow + 1));
  EXPECT_EQ(requests.next_deadline(), kNow + 1 + EarlyRequests::kTimeoutAfterListener);
  ASSERT_TRUE(requests.add(wire::service_id_of(PortSpace::udp, 7000), {}, kNow + 1));
  ASSERT_TRUE(requests.add(ServiceId{0x0200'0000'0010'0000}, {}, kNow + 1));
  EXPECT_EQ(step(requests, kNow + 1 + EarlyRequests::kTimeout), (Counts{0, 2}));
}

TEST(EarlyRequests, WaitLongerForEachServiceOfAListenerOfMany) {
  EarlyRequests requests;
  requests.on_listener_gone(
      ServiceRange::of(ServiceId{0x1000'0000'0000'0000}, 0xffff'ffff'ff00'0000), kNow);
  ASSERT_TRUE(requests.add(ServiceId{0x1000'0000'0000'0048}, {}, kNow + 1));
  EXPECT_EQ(requests.next_deadline(), kNow + 1 + EarlyRequests::kTimeoutAfterListener);
}

TEST(EarlyRequests, ForgetListenersOfLongAgo) {
  EarlyRequests requests;
  requests.on_listener_gone(ServiceRange::of(kPort), kNow);
  const TimeNs later = kNow + EarlyRequests::kMemory + 1;
  ASSERT_TRUE(requests.add(kPort, {}, later));
  EXPECT_EQ(requests.next_deadline(), later + EarlyRequests::kTimeout);
}

TEST(EarlyRequests, AreLimited) {
  EarlyRequests requests;
  for (std::size_t i = 0; i < EarlyRequests::kMax; ++i) {
    ASSERT_TRUE(requests.add(kPort, from(static_cast<std::uint8_t>(i % 255)), kNow));
  }
  EXPECT_FALSE(requests.add(kPort, from(255), kNow));
}

TEST(EarlyRequests, OfOneSourceLeaveRoomForOthers) {
  EarlyRequests requests;
  for (std::size_t i = 0; i < EarlyRequests::kMaxOfSource; ++i) {
    ASSERT_TRUE(requests.add(kPort, from(1), kNow));
  }
  EXPECT_FALSE(requests.add(kPort, from(1), kNow));
  EXPECT_TRUE(requests.add(kPort, from(2), kNow));
  step(requests, kNow + EarlyRequests::kTimeout);
  EXPECT_TRUE(requests.add(kPort, from(1), kNow));
}

}  // namespace
}  // namespace verbatim::agent

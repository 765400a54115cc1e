#include "ulp/ipoib/arrivals.h"

#include <gtest/gtest.h>

#include "ulp/ipoib/wire/connected_peer.h"

namespace verbatim::ulp::ipoib {
namespace {

const auto kOffer = encode(ConnectedPeer{.datagrams = Qpn(0x48), .receive_bytes = 65524});

Gid port(unsigned number) {
  Gid gid{{0xfe, 0x80}};
  gid.bytes[15] = static_cast<std::uint8_t>(number);
  return gid;
}

TEST(IpoibArrivals, WhoSaysNothingOfIpoibIsRefused) {
  Arrivals arrivals;
  EXPECT_NE(arrivals.on_requested(1, port(1), {}, 0).refusal, nullptr);
  EXPECT_EQ(arrivals.on_requested(1, port(1), kOffer, 0).refusal, nullptr);
}

TEST(IpoibArrivals, OnePortHasItsShareAndReplacesItsIdleOnes) {
  Arrivals arrivals;
  for (Arrivals::Id id = 1; id <= Arrivals::kOfOnePort; ++id)
    EXPECT_EQ(arrivals.on_requested(id, port(1), kOffer, id).refusal, nullptr);
  EXPECT_NE(arrivals.on_requested(100, port(1), kOffer, 100).refusal, nullptr);
  EXPECT_EQ(arrivals.on_requested(101, port(2), kOffer, 101).refusal, nullptr);
  arrivals.on_message(1, kSecond);
  const auto later = arrivals.on_requested(102, port(1), kOffer, Arrivals::kReplaced + kSecond);
  EXPECT_EQ(later.refusal, nullptr);
  EXPECT_EQ(later.replaced, std::vector<Arrivals::Id>{2});
}

TEST(IpoibArrivals, AllPortsTogetherHaveABound) {
  Arrivals arrivals;
  Arrivals::Id id = 0;
  for (; id < Arrivals::kMax; ++id)
    EXPECT_EQ(arrivals.on_requested(id, port(id / 8), kOffer, 0).refusal, nullptr);
  EXPECT_NE(arrivals.on_requested(id, port(200), kOffer, 0).refusal, nullptr);
  arrivals.on_ended(7);
  EXPECT_EQ(arrivals.on_requested(id, port(200), kOffer, 0).refusal, nullptr);
  EXPECT_EQ(arrivals.count(), Arrivals::kMax);
}

TEST(IpoibArrivals, IdleOnesEndOnce) {
  Arrivals arrivals;
  arrivals.on_requested(1, port(1), kOffer, 0);
  arrivals.on_requested(2, port(1), kOffer, 0);
  arrivals.on_message(2, kSecond);
  EXPECT_TRUE(arrivals.idle(arrivals.deadline() - 1).empty());
  EXPECT_EQ(arrivals.idle(arrivals.deadline()), std::vector<Arrivals::Id>{1});
  EXPECT_EQ(arrivals.idle(arrivals.deadline()), std::vector<Arrivals::Id>{2});
  EXPECT_EQ(arrivals.deadline(), kNever);
}

}  // namespace
}  // namespace verbatim::ulp::ipoib

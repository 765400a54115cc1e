#include "adapter/infiniband_test_util.h"

/// The timers of queue pairs that stop sending while something waits for a time: for a rate, or for
/// a receive request. Their deadline must not stay where it was, in the past.
namespace verbatim::adapter {
namespace {

constexpr std::uint8_t kRate2_5Gbps = 2;  // `ibv_rate`.

void stop_sending(Side& side) {
  QueuePairAttributes attributes;
  attributes.state = QpState::sqd;
  ASSERT_TRUE(side.qp->modify(attributes, kState));
}

/// While the program polls, which serves its timers.
bool comes_to_wait_for_nothing(Side& side) {
  return becomes(kNever, [&side] {
    Completion entry;
    side.node.adapter->poll(*side.cq, std::span(&entry, 1));
    return side.qp->deadline();
  });
}

struct Case {
  const char* name;
  TestNode::Path path;
  QpType type;
};
void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

struct RateLimit : AdapterPair, testing::WithParamInterface<Case> {
  RateLimit() : AdapterPair(GetParam().path) {}
};
INSTANTIATE_TEST_SUITE_P(Of, RateLimit,
                         testing::Values(Case{"RcOnTheWire", TestNode::Path::wire, QpType::rc},
                                         Case{"UcOnTheWire", TestNode::Path::wire, QpType::uc},
                                         Case{"RcDirect", TestNode::Path::direct, QpType::rc},
                                         Case{"UcDirect", TestNode::Path::direct, QpType::uc}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(RateLimit, IsNotWaitedForInSqd) {
  Side left(a, GetParam().type);
  Side right(b, GetParam().type);
  left.connect(right);
  right.connect(left);
  ASSERT_TRUE(left.qp->limit_rate(10, 2048));
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 1024), &right));
  }
  EXPECT_NE(kNever, left.qp->deadline());
  stop_sending(left);
  EXPECT_TRUE(comes_to_wait_for_nothing(left));
}

struct StaticRate : testing::Test {
  explicit StaticRate(MemoryLink::Ends ends = MemoryLink::make(1 << 20))
      : left_link(*ends.first),
        a(1 << 14, InfinibandEnd{.gid = gid_with(1),
                                 .link = std::move(ends.first),
                                 .lids = {.base = Lid{4}, .lmc = 2}}),
        b(2 << 14, InfinibandEnd{.gid = gid_with(2),
                                 .link = std::move(ends.second),
                                 .lids = {.base = Lid{8}, .lmc = 1}}) {
    left_link.rate_mbps = 100'000;
  }
  MemoryLink& left_link;
  TestNode a, b;
};

TEST_F(StaticRate, IsNotWaitedForInSqd) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.static_rate = kRate2_5Gbps;
  connect(left, right);
  // They take 0.2 s.
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 1 << 20), &right));
  }
  EXPECT_NE(kNever, left.qp->deadline());
  stop_sending(left);
  EXPECT_TRUE(comes_to_wait_for_nothing(left));
}

struct LateReceive : AdapterPair {
  LateReceive() : AdapterPair(TestNode::Path::direct, 3600 * kSecond) {}
};

TEST_F(LateReceive, IsNotWaitedForInSqd) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  EXPECT_NE(kNever, left.qp->deadline());
  stop_sending(left);
  EXPECT_TRUE(comes_to_wait_for_nothing(left));
}

}  // namespace
}  // namespace verbatim::adapter

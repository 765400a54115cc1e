#include "adapter/adapter_test_util.h"

/// Finding peers of the direct path.
namespace verbatim::adapter {
namespace {

struct DirectPeers : AdapterPair {
  DirectPeers() : AdapterPair(TestNode::Path::direct) {}

  static void expect_write(Side& from, const Side& to) {
    ASSERT_EQ(0, from.post(Operation::write, from.segment(0, 64), &to));
    EXPECT_EQ(Status::success, from.next().status);
    EXPECT_EQ(0u, from.qp->counters().packets_sent.value());
  }
};

TEST_F(DirectPeers, TheAgentIsAskedOnceForAProgram) {
  for (int i = 0; i < 3; ++i) {
    Side left(a, QpType::rc);
    Side right(b, QpType::rc);
    left.connect(right);
    right.connect(left);
    expect_write(left, right);
  }
  EXPECT_EQ(1, a.questions);
  EXPECT_EQ(1, b.questions);
}

TEST_F(DirectPeers, AProgramThatLacksTheQueuePairIsAskedForAnew) {
  std::uint32_t number = 0;
  {
    Side left(a, QpType::rc);
    Side right(b, QpType::rc);
    left.connect(right);
    number = right.qp->number().value();
    EXPECT_NE(nullptr,
              a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, Qpn(number)));
  }
  EXPECT_EQ(1, a.questions);
  EXPECT_NE(nullptr,
            a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, Qpn(number)));
  EXPECT_EQ(2, a.questions);
}

TEST_F(DirectPeers, AnAddressWhereTheProgramWasNotFoundIsAskedFor) {
  Side right(b, QpType::rc);
  const Qpn number = right.qp->number();
  const auto first = a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, number);
  const auto second = a.adapter->peers().find_peer(TestNode::own_address(77), number);
  EXPECT_NE(nullptr, first);
  EXPECT_EQ(first, second);
  EXPECT_EQ(2, a.questions);
  a.adapter->peers().find_peer(TestNode::own_address(77), number);
  EXPECT_EQ(2, a.questions);
}

TEST_F(DirectPeers, AProgramHasNoQueuePairOfNumberZero) {
  Side right(b, QpType::rc);
  const Qpn number = right.qp->number();
  const auto peer = a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, number);
  ASSERT_NE(nullptr, peer);
  EXPECT_TRUE(peer->has(number));
  EXPECT_FALSE(peer->has(Qpn{}));
}

}  // namespace
}  // namespace verbatim::adapter

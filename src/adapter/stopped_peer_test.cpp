#include "adapter/adapter_test_util.h"

/// A peer that is stopped (SIGSTOP, a debugger) while it executes a request holds the target's lock
/// until it goes on. A card's calls need nothing of the peer.
namespace verbatim::adapter {
namespace {

struct StoppedPeer : AdapterPair {
  StoppedPeer() : AdapterPair(TestNode::Path::direct) {
    left.timeout = 8;  // A millisecond.
  }
  void connect() {
    left.connect(right);
    right.connect(left);
  }
  void receive(std::uint64_t wr_id) {
    const Segment segment = right.segment(0, 64);
    ASSERT_EQ(0, right.qp->post_receive(wr_id, std::span(&segment, 1)));
  }
  DirectTarget& target() {
    const auto peer =
        a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, right.qp->number());
    return peer->target(right.qp->number().value() % kProgramQueuePairsMax);
  }
  static void enter(Side& side, QpState state) {
    QueuePairAttributes attributes;
    attributes.state = state;
    EXPECT_TRUE(side.qp->modify(attributes, kState));
  }
  void reconnect_and_write() {
    enter(right, QpState::reset);
    enter(left, QpState::reset);
    connect();
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
    EXPECT_EQ(Status::success, left.next().status);
  }
  /// As the one that has been stopped, when it goes on.
  static void go_on(DirectTarget& held) {
    EXPECT_FALSE(held.begin_step());
    held.stop_serving();
    held.lock.unlock();
  }

  Side left{a, QpType::rc};
  Side right{b, QpType::rc};
};

TEST_F(StoppedPeer, HoldsUpNoError) {
  connect();
  receive(1);
  receive(2);
  ASSERT_TRUE(target().lock.try_lock());
  enter(right, QpState::err);
  EXPECT_EQ(1u, right.next().wr_id);
  EXPECT_EQ(2u, right.next().wr_id);
  go_on(target());
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  EXPECT_EQ(Status::retry_exceeded, left.next().status);
}

TEST_F(StoppedPeer, LosesItsReceiveToTheFlush) {
  connect();
  DirectTarget& held = target();
  ASSERT_TRUE(held.lock.try_lock());
  held.receive.wr_id = 1;
  held.holds_receive = true;  // It copies now.
  enter(right, QpState::err);
  EXPECT_EQ(Status::flushed, right.next().status);
  EXPECT_FALSE(held.holds_receive);
  go_on(held);
}

TEST_F(StoppedPeer, IsLeftToTheWireUntilItGoesOn) {
  connect();
  DirectTarget& held = target();
  ASSERT_TRUE(held.lock.try_lock());
  reconnect_and_write();
  const auto sent = left.qp->counters().packets_sent.value();
  EXPECT_GT(sent, 0u);
  go_on(held);
  reconnect_and_write();
  EXPECT_EQ(sent, left.qp->counters().packets_sent.value());
}

TEST_F(StoppedPeer, HoldsUpNoDestruction) {
  connect();
  DirectTarget& held = target();
  ASSERT_TRUE(held.lock.try_lock());
  QueuePairOptions options = right.qp->options();
  b.adapter->destroy_queue_pair(right.qp);
  go_on(held);
  right.qp = *b.adapter->create_queue_pair(options);
}

}  // namespace
}  // namespace verbatim::adapter

#include <atomic>
#include <thread>

#include <time.h>

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

/// While its owner tries to give the target up, and finds each time that the peer is in a step.
TEST_F(StoppedPeer, HasSentWhatHasArrived) {
  for (int trial = 0; trial < 100; ++trial) {
    enter(right, QpState::reset);
    enter(left, QpState::reset);
    connect();
    for (std::uint64_t i = 0; i < 64; ++i) receive(i);
    std::atomic<bool> is_over = false;
    std::thread owner([&, &held = target()] {
      while (!is_over) {
        held.given_up = true;
        held.given_up = false;
        for (int i = 0; i < trial && !is_over; ++i)
          std::atomic_signal_fence(std::memory_order_seq_cst);
      }
    });
    int sent = 0, received = 0;
    for (; sent < 64; ++sent) {
      ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
      if (left.next().status != Status::success) break;
    }
    is_over = true;
    owner.join();
    Completion entry;
    while (b.adapter->poll(*right.cq, std::span(&entry, 1)) == 1) {
      if (entry.status == Status::success) ++received;
    }
    ASSERT_EQ(sent, received) << trial;
  }
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

TEST_F(StoppedPeer, HoldsUpNoChangeOfAttributes) {
  connect();
  DirectTarget& held = target();
  ASSERT_TRUE(held.lock.try_lock());
  QueuePairAttributes attributes;
  attributes.access = region::kRemoteRead;
  EXPECT_TRUE(right.qp->modify(attributes, kAccessFlags));
  held.lock.unlock();
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
  EXPECT_EQ(Status::remote_invalid_request, left.next().status);
}

/// Many processes share few processors: a holder that waits for one is not stopped.
TEST_F(StoppedPeer, IsNoPeerThatHasNoProcessorForAWhile) {
  connect();
  DirectTarget& held = target();
  {
    ASSERT_TRUE(held.lock.try_lock());
    const TargetLock target_lock(held, std::adopt_lock);
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
    Completion entry;
    // Far more than its ACK time-outs and retries.
    for (const TimeNs end = monotonic_now() + kSecond / 2; monotonic_now() < end;) {
      ASSERT_EQ(0u, a.adapter->poll(*left.cq, std::span(&entry, 1)));
    }
  }
  EXPECT_EQ(Status::success, left.next().status);
}

/// A queue pair that becomes ready to receive meanwhile is served, and not left to the wire.
TEST_F(StoppedPeer, CostsNoNewQueuePairItsTargetIfItOnlyLacksAProcessor) {
  connect();
  DirectTarget& held = target();
  enter(right, QpState::reset);
  enter(left, QpState::reset);
  ASSERT_TRUE(held.lock.try_lock());
  std::thread holder([&held] {
    const TimeNs end = monotonic_now() + kSecond / 5;
    while (monotonic_now() < end) std::this_thread::yield();
    const TargetLock target_lock(held, std::adopt_lock);
  });
  connect();
  holder.join();
  EXPECT_FALSE(held.given_up);
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(0u, left.qp->counters().packets_sent.value());
}

TimeNs processor_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * kSecond + used.tv_nsec;
}

/// What it costs, in processor time: one wait of 20 ms, not one for each message.
TEST_F(StoppedPeer, IsWaitedForOnceByManyMessages) {
  connect();
  DirectTarget& held = target();
  MappedTarget mapped(
      a.adapter->peers().find_peer(b.adapter->port().gids()[1].address, right.qp->number()),
      right.qp->number().value() % kProgramQueuePairsMax);
  {
    ASSERT_TRUE(held.lock.try_lock());
    const TargetLock target_lock(held, std::adopt_lock);
    const TimeNs before = processor_time();
    for (int message = 0; message < 500; ++message) ASSERT_FALSE(mapped.lock_soon());
    EXPECT_LT(processor_time() - before, kSecond);
  }
  ASSERT_TRUE(mapped.lock_soon());
  held.lock.unlock();
}

/// A request of which a step was refused has not arrived, even if the owner takes the target back
/// while the request goes on: it has found the holder in another step.
TEST_F(StoppedPeer, RemembersThatAStepWasRefused) {
  connect();
  DirectTarget& held = target();
  held.given_up = true;
  std::thread owner([&held] {
    while (!std::atomic_ref(held.established).load()) relax_processor();
    held.given_up = false;
  });
  // The owner is to be told of the first request, before a megabyte is copied.
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, Side::kBytes), &right));
  owner.join();
  EXPECT_EQ(Status::retry_exceeded, left.next().status);
}

}  // namespace
}  // namespace verbatim::adapter

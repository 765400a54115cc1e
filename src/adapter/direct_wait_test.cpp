#include "adapter/adapter_kit.h"

/// What a request of the direct path waits for, and for how long.
namespace verbatim::adapter {
namespace {

/// Two queue pairs that allow no retry for RNR. No test lasts as long as their grace.
struct DirectWait : AdapterPair {
  explicit DirectWait(TimeNs rnr_grace = 3600 * kSecond)
      : AdapterPair(Host::Path::direct, rnr_grace), left(a, QpType::rc), right(b, QpType::rc) {
    left.rnr_retry = 0;
    left.connect(right);
    right.connect(left);
  }
  void receive(std::uint64_t wr_id) {
    const Segment segment = right.segment(0, 64);
    ASSERT_EQ(0, right.qp->post_receive(wr_id, std::span(&segment, 1)));
  }
  static int poll(Side& side) {
    Completion entry;
    return static_cast<int>(side.host.adapter->poll(*side.cq, std::span(&entry, 1)));
  }

  Side left, right;
};

struct EveryMessage : DirectWait, testing::WithParamInterface<Operation> {};

INSTANTIATE_TEST_SUITE_P(Of, EveryMessage,
                         testing::Values(Operation::send, Operation::send_with_immediate,
                                         Operation::write_with_immediate),
                         [](const auto& tested) {
                           switch (tested.param) {
                             case Operation::send:
                               return "Send";
                             case Operation::send_with_immediate:
                               return "SendWithImmediate";
                             default:
                               return "WriteWithImmediate";
                           }
                         });

TEST_P(EveryMessage, WaitsForAReceiveThatIsPostedSoon) {
  fill(left, 0, 64, 1);
  ASSERT_EQ(0, left.post(GetParam(), left.segment(0, 64), &right));
  EXPECT_EQ(0, poll(left));
  receive(7);
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(7u, right.next().wr_id);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + 64, right.memory.begin()));
  EXPECT_EQ(QpState::rts, left.qp->state());
}

TEST_F(DirectWait, EachMessageHasAGraceOfItsOwn) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
    EXPECT_EQ(0, poll(left));
    receive(i);
    ASSERT_EQ(Status::success, left.next().status);
    ASSERT_EQ(i, right.next().wr_id);
  }
}

TEST_F(DirectWait, WhatIsPostedBehindAWaitingMessageStaysBehind) {
  right.memory[100] = std::byte{1};
  left.memory[200] = std::byte{2};
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  ASSERT_EQ(0, left.post(Operation::write, left.segment(200, 1), &right, 100));
  ASSERT_EQ(0, left.post(Operation::read, left.segment(300, 1), &right, 100));
  EXPECT_EQ(0, poll(left));
  EXPECT_EQ(std::byte{1}, right.memory[100]);
  receive(7);
  for (std::uint64_t wr_id = 1; wr_id <= 3; ++wr_id) {
    const Completion done = left.next();
    EXPECT_EQ(Status::success, done.status);
    EXPECT_EQ(wr_id, done.wr_id);
  }
  EXPECT_EQ(std::byte{2}, left.memory[300]);
}

TEST_F(DirectWait, AProgramThatSleepsSeesTheMessageArrive) {
  left.host.adapter->arm(*left.cq, false);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  receive(7);
  ASSERT_EQ(left.cq.get(), left.channel.wait().value());
  left.cq->count_delivered_event();
  left.cq->acknowledge_events(1);
  EXPECT_EQ(Status::success, left.next().status);
}

struct ShortGrace : DirectWait {
  static constexpr TimeNs kShort = 3 * kMillisecond;
  ShortGrace() : DirectWait(kShort) {}
};

TEST_F(ShortGrace, CountsAsRnrWhenItHasPassed) {
  const TimeNs begin = monotonic_now();
  left.host.adapter->arm(*left.cq, false);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  ASSERT_EQ(left.cq.get(), left.channel.wait().value());
  left.cq->count_delivered_event();
  left.cq->acknowledge_events(1);
  EXPECT_EQ(Status::rnr_retry_exceeded, left.next().status);
  EXPECT_GE(monotonic_now() - begin, kShort);
  EXPECT_EQ(QpState::rts, right.qp->state());
}

TEST_F(DirectWait, APeerThatFailsMeanwhileEndsIt) {
  Side early(a, QpType::rc);
  Side late(b, QpType::rc);
  early.rnr_retry = 0;
  early.timeout = 1;  // 8 us.
  early.connect(late);
  late.connect(early);
  ASSERT_EQ(0, early.post(Operation::send, early.segment(0, 64)));
  ASSERT_TRUE(late.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::retry_exceeded, early.next().status);
}

TEST_F(DirectWait, AProgramLeavesAWaitingMessageAtOnce) {
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  EXPECT_EQ(0, poll(left));
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::flushed, left.next().status);
}

TEST_F(DirectWait, SharedReceivesAreWaitedForAsWell) {
  auto* const shared =
      *b.adapter->create_shared_receive_queue({.pd = b.pd, .requests = 8, .segments = 1});
  {
    Side taker(b, QpType::rc, 64, shared);
    Side sender(a, QpType::rc);
    sender.rnr_retry = 0;
    sender.connect(taker);
    taker.connect(sender);
    ASSERT_EQ(0, sender.post(Operation::send, sender.segment(0, 64)));
    EXPECT_EQ(0, poll(sender));
    const Segment segment = taker.segment(0, 64);
    ASSERT_EQ(0, shared->post_receive(7, std::span(&segment, 1)));
    EXPECT_EQ(Status::success, sender.next().status);
    EXPECT_EQ(7u, taker.next().wr_id);
  }
  EXPECT_TRUE(b.adapter->destroy_shared_receive_queue(shared));
}

struct NoGrace : DirectWait {
  NoGrace() : DirectWait(0) {}
};

TEST_F(NoGrace, CountsAsRnrAtOnce) {
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  receive(7);
  EXPECT_EQ(Status::rnr_retry_exceeded, left.next().status);
  EXPECT_EQ(0, poll(right));
}

}  // namespace
}  // namespace verbatim::adapter

#include <chrono>
#include <latch>
#include <thread>

#include <sys/epoll.h>

#include "adapter/adapter_test_util.h"

/// What requests on the direct path wait for, and how long.
namespace verbatim::adapter {
namespace {

/// Two queue pairs without RNR retries. No test takes as long as their grace time.
struct DirectWait : AdapterPair {
  explicit DirectWait(TimeNs rnr_grace = 3600 * kSecond)
      : AdapterPair(TestNode::Path::direct, rnr_grace), left(a, QpType::rc), right(b, QpType::rc) {
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
    return static_cast<int>(side.node.adapter->poll(*side.cq, std::span(&entry, 1)));
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
  left.node.adapter->arm(*left.cq, false);
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
  left.node.adapter->arm(*left.cq, false);
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

/// A memory window that a queue pair has bound to its side's memory.
class BoundWindow {
 public:
  explicit BoundWindow(Side& side)
      : side_(side),
        window_(*side.node.adapter->memory().allocate_window(region::EntryKind::window_2,
                                                             side.node.pd)),
        key_{raw(window_) ^ 1},
        region_(*side.node.adapter->memory().register_memory(
            {.address = side.address(),
             .length = Side::kBytes,
             .iova = side.address(),
             .access = region::kLocalWrite | region::kMwBind,
             .pd = side.node.pd})) {
    SendWork work{.flags = kPostSignaled};
    work.request.operation = Operation::bind_window;
    work.request.remote_key = key_;
    work.binding = {.window = window_,
                    .key = key_,
                    .region = region_,
                    .address = side.address(),
                    .length = 64,
                    .access = region::kRemoteWrite};
    EXPECT_EQ(0, side.qp->post_send(work));
    EXPECT_EQ(Status::success, side.next().status);
  }
  ~BoundWindow() {
    EXPECT_TRUE(side_.node.adapter->memory().deallocate_window(window_, side_.node.pd));
    EXPECT_TRUE(side_.node.adapter->memory().deregister_memory(region_));
  }
  BoundWindow(const BoundWindow&) = delete;
  BoundWindow& operator=(const BoundWindow&) = delete;
  MemoryKey key() const { return key_; }

 private:
  Side& side_;
  MemoryKey window_, key_, region_;
};

/// The peer stops serving after it was asked to invalidate.
TEST_F(DirectWait, TheTimeOutsOfAPeerThatFailsBeginAfterTheGrace) {
  constexpr TimeNs kTimeOuts = 8 * (TimeNs{4096} << 10);
  Side early(a, QpType::rc);
  Side late(b, QpType::rc);
  early.timeout = 10;
  early.connect(late);
  late.connect(early);
  const auto poll_for = [&](TimeNs time) {
    for (const TimeNs end = monotonic_now() + time; monotonic_now() < end;) {
      EXPECT_EQ(0, poll(early));
    }
  };
  const BoundWindow window(late);
  const Segment message = early.segment(0, 64);
  SendWork work{.segments = std::span(&message, 1), .flags = kPostSignaled};
  work.request.operation = Operation::send_with_invalidate;
  work.request.length = message.length;
  work.request.remote_key = window.key();
  ASSERT_EQ(0, early.qp->post_send(work));
  poll_for(20 * kMillisecond);
  // Keeps the background thread busy, which would answer.
  const UniqueFd event(eventfd(1, EFD_CLOEXEC));
  const auto is_busy = std::make_shared<std::latch>(1), is_done = std::make_shared<std::latch>(1);
  const auto keep_busy = [=] {
    is_busy->count_down();
    is_done->wait();
  };
  ASSERT_TRUE(b.adapter->progress().watch(event.get(), keep_busy, EPOLLIN | EPOLLONESHOT));
  is_busy->wait();
  const Segment segment = late.segment(0, 64);
  EXPECT_EQ(0, late.qp->post_receive(7, std::span(&segment, 1)));
  poll_for(2 * kMillisecond);
  const TimeNs failed_at = monotonic_now();
  EXPECT_TRUE(late.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::retry_exceeded, early.next().status);
  EXPECT_GE(monotonic_now() - failed_at, kTimeOuts);
  b.adapter->progress().unwatch(event.get());
  is_done->count_down();
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

struct MeasurableGrace : DirectWait {
  static constexpr TimeNs kGrace = kSecond;
  MeasurableGrace() : DirectWait(kGrace) {}
};

TEST_F(MeasurableGrace, BeginsAnewForEachMessage) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    if (i != 0) std::this_thread::sleep_for(std::chrono::nanoseconds(kGrace));
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
    EXPECT_EQ(0, poll(left));
    receive(i);
    ASSERT_EQ(Status::success, left.next().status);
    ASSERT_EQ(i, right.next().wr_id);
  }
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

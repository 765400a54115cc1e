#include <array>
#include <atomic>
#include <thread>

#include <poll.h>

#include "adapter/queues/completion_queue_test_util.h"

/// The ring with many producers, with killed ones, and with a resize meanwhile.
namespace verbatim::adapter {
namespace {

using CompletionRingTest = CompletionQueueTest;

/// Leaves the ring as a producer that is killed after counting its entry and before storing the
/// generation.
TEST_F(CompletionRingTest, WhatAKilledProducerHasCountedComes) {
  const auto queue = make(4);
  CompletionRing& ring = *arena_->at(queue->ring());
  const auto kill_producer_of = [&](std::uint64_t id) {
    push(*queue, id);
    arena_->at(ring.entries)[(ring.produced - 1) % queue->capacity()].generation = 0;
    --ring.finished;
    EXPECT_EQ(poll(*queue, 4), Ids{});
  };
  kill_producer_of(1);
  queue->recover();
  EXPECT_EQ(poll(*queue, 4), Ids{1});
  kill_producer_of(2);
  push(*queue, 3);
  EXPECT_EQ(poll(*queue, 4), (Ids{2, 3}));
}

/// Leaves the ring as a producer that completes a receive request and is killed before it says so.
/// The request must complete once, and the channel must be notified, even without a further
/// producer.
TEST_F(CompletionRingTest, WhatAKilledProducerHasCompletedIsNotInUseAndIsTold) {
  const auto queue = make(4);
  CompletionRing& ring = *arena_->at(queue->ring());
  const auto flag = arena_->allocate(sizeof(std::atomic<bool>));
  auto& holds = *reinterpret_cast<std::atomic<bool>*>(arena_->at(*flag));
  for (const bool is_reported_by_recovery : {true, false}) {
    holds = true;
    queue->arm(false);
    ring.add(arena_->base(), {.wr_id = 1}, false, &holds);
    EXPECT_FALSE(holds);
    holds = true;
    ring.armed = CompletionRing::any;
    --ring.finished;
    if (is_reported_by_recovery) {
      queue->recover();
    } else {
      ring.finish(arena_->base());  // By a peer, which is killed, too.
      queue->arm(false);            // The earlier event is still due.
    }
    EXPECT_FALSE(holds);
    EXPECT_EQ(events(), 1);
    EXPECT_EQ(poll(*queue, 4), Ids{1});
  }
}

/// The thread that has added an entry notifies the channel, perhaps late; it is notified once.
TEST_F(CompletionRingTest, AnEntryIsToldOnce) {
  const auto queue = make(4);
  CompletionRing& ring = *arena_->at(queue->ring());
  queue->arm(false);
  EXPECT_EQ(ring.add(arena_->base(), {.wr_id = 1}, false), CompletionRing::Added::event_due);
  EXPECT_EQ(ring.add(arena_->base(), {.wr_id = 2}, false), CompletionRing::Added::no_event);
  queue->recover();
  queue->notify_channel();
  EXPECT_EQ(events(), 1);
}

/// One thread adds, another grows and shrinks the queue: no entry is lost or doubled.
TEST_F(CompletionRingTest, ResizingWhileEntriesComeLosesNone) {
  const auto queue = make(64);
  constexpr std::uint64_t kEntries = 2'000;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> taken{0};
  std::thread producer([&] {
    for (std::uint64_t id = 0; id < kEntries; ++id) {
      while (id - taken >= 32) std::this_thread::yield();
      ASSERT_TRUE(push(*queue, id));
    }
  });
  std::thread resizer([&] {
    for (std::uint32_t turn = 0; !done; ++turn) {
      EXPECT_TRUE(queue->resize(turn % 2 == 0 ? 64 : 256));
    }
  });
  while (taken < kEntries) {
    for (const std::uint64_t id : poll(*queue, 8)) ASSERT_EQ(id, taken++);
  }
  done = true;
  producer.join();
  resizer.join();
}

TEST_F(CompletionRingTest, TwoProducersLoseNothing) {
  constexpr std::uint64_t kBatch = 64;  // So that producers meet in the ring, not at `room`.
  constexpr std::uint64_t kEach = 3'000 * kBatch;
  const auto queue = make(1024);
  std::atomic<std::uint64_t> room = 1024;  // Keeps producers from an overrun.
  const auto produce = [&](std::uint64_t producer) {
    for (std::uint64_t id = 0; id < kEach;) {
      std::uint64_t free = room.load();
      if (free < kBatch || !room.compare_exchange_weak(free, free - kBatch)) {
        std::this_thread::yield();
        continue;
      }
      for (std::uint64_t end = id + kBatch; id < end; ++id) {
        ASSERT_TRUE(push(*queue, producer << 32 | id));
      }
    }
  };
  std::thread first(produce, 0);
  std::thread second(produce, 1);
  std::array<std::uint64_t, 2> next{};
  std::array<Completion, 16> out;
  while (next[0] + next[1] < 2 * kEach) {
    const std::size_t count = queue->poll(out);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(out[i].wr_id & 0xffffffff, next[out[i].wr_id >> 32]++);
    }
    room += count;
    if (count == 0) std::this_thread::yield();
  }
  first.join();
  second.join();
  EXPECT_TRUE(queue->empty());
}

TEST_F(CompletionRingTest, ArmThenPollMissesNothing) {
  constexpr std::uint64_t kEntries = 2'000;
  const auto queue = make(kEntries);
  std::thread producer([&] {
    for (std::uint64_t id = 0; id < kEntries; ++id) push(*queue, id);
  });
  std::array<Completion, 4> out;
  for (std::uint64_t seen = 0; seen < kEntries;) {
    queue->arm(false);
    while (const std::size_t count = queue->poll(out)) seen += count;
    if (seen == kEntries) break;
    pollfd readable{channel_.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1) << "an entry came without an event";
    events();
  }
  producer.join();
}

}  // namespace
}  // namespace verbatim::adapter

#include "adapter/queues/receive_queue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

class ReceiveQueueTest : public testing::Test {
 protected:
  std::unique_ptr<ReceiveQueue> make(std::uint32_t capacity, std::uint32_t segments_max) {
    return std::move(*ReceiveQueue::create(*arena_, capacity, segments_max));
  }
  std::unique_ptr<Arena> arena_ = std::move(*Arena::create());
};

TEST_F(ReceiveQueueTest, RefusesMoreThanItCanHave) {
  EXPECT_EQ(ReceiveQueue::create(*arena_, kReceivesMax + 1, 1).error().code, EINVAL);
  EXPECT_EQ(ReceiveQueue::create(*arena_, 1, kSegmentsMax + 1).error().code, EINVAL);
  EXPECT_TRUE(ReceiveQueue::create(*arena_, kReceivesMax, kSegmentsMax));
}

TEST_F(ReceiveQueueTest, TakesWhatWasPostedInOrderAcrossTheRingsEnd) {
  const auto queue = make(3, 2);
  ReceiveRequest request;
  EXPECT_FALSE(queue->take(request));
  for (std::uint64_t id = 0; id < 20; ++id) {
    const std::array segments{Segment{id, 10, 1}, Segment{id + 1, 0xffffffff, 2}};
    ASSERT_EQ(queue->post(id, segments), 0);
    ASSERT_EQ(queue->post(id + 100, std::span(segments).first(1)), 0);
    EXPECT_EQ(queue->count(), 2U);
    ASSERT_TRUE(queue->take(request));
    EXPECT_EQ(request.wr_id, id);
    ASSERT_EQ(request.segment_count, 2U);
    EXPECT_EQ(request.segments[0].address, id);
    EXPECT_EQ(request.segments[1].address, id + 1);
    EXPECT_EQ(request.segments[1].key, 2U);
    EXPECT_EQ(request.capacity_bytes, 10 + 0xffffffffULL);
    ASSERT_TRUE(queue->take(request));
    EXPECT_EQ(request.wr_id, id + 100);
    EXPECT_EQ(request.segment_count, 1U);
    EXPECT_EQ(request.capacity_bytes, 10U);
  }
  EXPECT_EQ(queue->count(), 0U);
}

TEST_F(ReceiveQueueTest, LeavesItsMemoryZeroedForTheNext) {
  constexpr std::uint32_t kCapacity = 248;  // And 8: a ring of 256.
  constexpr std::size_t kBytes = 256 * (sizeof(ReceiveWqe) + sizeof(Segment));
  const Segment segment{~0ULL, ~0u, ~0u};
  ReceiveRequest request;
  for (const std::uint64_t count : {0u, 3u, kCapacity, 3 * kCapacity}) {
    auto queue = make(kCapacity, 1);
    for (std::uint64_t id = 0; id < count; ++id) {
      ASSERT_EQ(queue->post(~id, {&segment, 1}), 0);
      ASSERT_TRUE(queue->take(request));
    }
    queue.reset();
    const auto block = *arena_->allocate(kBytes);
    const std::span bytes(arena_->at(block), kBytes);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte it) { return it == std::byte{0}; }));
    arena_->free(block, kBytes);
  }
}

/// Leaves the ring as a taker that is killed after taking a request and before setting its flag.
TEST_F(ReceiveQueueTest, WhatAKilledTakerHasTakenItHolds) {
  const auto queue = make(4, 1);
  ReceiveRing& ring = *arena_->at(queue->ring());
  const auto flags = arena_->allocate(2 * sizeof(std::atomic<bool>));
  auto* const holds = reinterpret_cast<std::atomic<bool>*>(arena_->at(*flags));
  const Segment segment;
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(queue->post(id, {&segment, 1}), 0);
  std::array<ReceiveRequest, 2> requests;
  const auto kill_taker = [&](int taker) {
    ASSERT_TRUE(ring.take(arena_->base(), requests[taker], &holds[taker]));
    ASSERT_TRUE(holds[taker].exchange(false));
    --ring.finished;
  };
  kill_taker(0);  // Another one takes.
  EXPECT_TRUE(ring.take(arena_->base(), requests[1], &holds[1]));
  EXPECT_TRUE(holds[0]);
  EXPECT_EQ(requests[0].wr_id, 0U);
  EXPECT_EQ(requests[1].wr_id, 1U);
  holds[0] = false;
  kill_taker(0);  // Its successor at the same target takes: it has one already.
  EXPECT_TRUE(ring.take(arena_->base(), requests[0], &holds[0]));
  EXPECT_TRUE(holds[0]);
  EXPECT_EQ(requests[0].wr_id, 2U);
  EXPECT_EQ(queue->count(), 1U);
  holds[0] = false;
  kill_taker(0);  // No other taker comes.
  ring.finish(arena_->base());
  EXPECT_TRUE(holds[0]);
}

TEST_F(ReceiveQueueTest, IsFullWithExactlyWhatWasAskedFor) {
  const auto queue = make(5, 1);
  EXPECT_EQ(queue->capacity(), 5U);
  const Segment segment;
  for (std::uint64_t id = 0; id < 5; ++id) EXPECT_EQ(queue->post(id, {&segment, 1}), 0);
  EXPECT_EQ(queue->post(5, {&segment, 1}), ENOMEM);
  ReceiveRequest request;
  ASSERT_TRUE(queue->take(request));
  EXPECT_EQ(queue->post(5, {&segment, 1}), 0);
  EXPECT_EQ(queue->post(6, {&segment, 1}), ENOMEM);
}

TEST_F(ReceiveQueueTest, TooManySegmentsAreEinvalAndNoneAreFine) {
  const auto queue = make(2, 2);
  const std::array<Segment, 3> segments{};
  EXPECT_EQ(queue->post(1, segments), EINVAL);
  EXPECT_EQ(queue->count(), 0U);
  EXPECT_EQ(queue->post(2, {}), 0);
  ReceiveRequest request;
  ASSERT_TRUE(queue->take(request));
  EXPECT_EQ(request.segment_count, 0U);
  EXPECT_EQ(request.capacity_bytes, 0U);
}

TEST_F(ReceiveQueueTest, OfNoRequestsIsAlwaysFull) {
  const auto queue = make(0, 0);
  EXPECT_EQ(queue->post(0, {}), ENOMEM);
  ReceiveRequest request;
  EXPECT_FALSE(queue->take(request));
}

TEST_F(ReceiveQueueTest, ResizingKeepsWhatIsThereInOrder) {
  const auto queue = make(3, 1);
  ReceiveRequest request;
  const Segment segment{7, 8, 9};
  for (std::uint64_t id = 0; id < 5; ++id) {  // Somewhere in the ring.
    ASSERT_EQ(queue->post(id, {&segment, 1}), 0);
    ASSERT_TRUE(queue->take(request));
  }
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(queue->post(id, {&segment, 1}), 0);
  EXPECT_EQ(queue->resize(2).error().code, EINVAL);
  EXPECT_EQ(queue->resize(kReceivesMax + 1).error().code, EINVAL);
  EXPECT_EQ(queue->capacity(), 3U);
  ASSERT_TRUE(queue->resize(9));
  for (std::uint64_t id = 3; id < 9; ++id) ASSERT_EQ(queue->post(id, {&segment, 1}), 0);
  EXPECT_EQ(queue->post(9, {&segment, 1}), ENOMEM);
  for (std::uint64_t id = 0; id < 9; ++id) {
    ASSERT_TRUE(queue->take(request));
    EXPECT_EQ(request.wr_id, id);
    EXPECT_EQ(request.segments[0].address, 7U);
  }
  ASSERT_TRUE(queue->resize(1));
  EXPECT_EQ(queue->post(0, {&segment, 1}), 0);
  EXPECT_EQ(queue->post(1, {&segment, 1}), ENOMEM);
}

TEST_F(ReceiveQueueTest, TheLimitIsReachedOnceBelowIt) {
  const auto queue = make(4, 1);
  ReceiveRequest request;
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(queue->post(id, {}), 0);
  EXPECT_FALSE(queue->disarm_limit()) << "no limit is set";
  queue->set_limit(3);
  ASSERT_TRUE(queue->take(request));
  EXPECT_FALSE(queue->disarm_limit()) << "three are not fewer than three";
  ASSERT_TRUE(queue->take(request));
  EXPECT_TRUE(queue->disarm_limit());
  EXPECT_EQ(queue->limit(), 0U);
  ASSERT_TRUE(queue->take(request));
  EXPECT_FALSE(queue->disarm_limit());
}

TEST_F(ReceiveQueueTest, WhoIsKilledBeforeTellingOfTheLimitLosesNothing) {
  const auto queue = make(4, 1);
  ReceiveRing& ring = *arena_->at(queue->ring());
  ReceiveRequest request;
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(queue->post(id, {}), 0);
  queue->set_limit(4);
  ASSERT_TRUE(queue->take(request));
  EXPECT_TRUE(ring.reaches_limit());  // And is killed.
  EXPECT_EQ(queue->post(4, {}), 0);
  EXPECT_TRUE(ring.reaches_limit()) << "also where enough are there again";
  EXPECT_EQ(queue->limit(), 0U);
  EXPECT_TRUE(queue->set_limit(2)) << "a new limit does not hide it";
  EXPECT_FALSE(queue->disarm_limit());
  EXPECT_EQ(queue->limit(), 2U);
}

TEST_F(ReceiveQueueTest, ThreadsTakeEveryRequestOnce) {
  constexpr std::uint64_t kEach = 20'000;
  const auto queue = make(100, 1);
  std::vector<std::atomic<int>> taken(2 * kEach);
  std::atomic<std::uint64_t> left = 2 * kEach;
  const auto post = [&](std::uint64_t first) {
    for (std::uint64_t id = first; id < first + kEach;) {
      const Segment segment{id, 1, static_cast<std::uint32_t>(id)};
      if (queue->post(id, {&segment, 1}) == 0) {
        ++id;
      } else {
        std::this_thread::yield();
      }
    }
  };
  const auto take = [&] {
    ReceiveRequest request;
    while (left > 0) {
      if (!queue->take(request)) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(request.segments[0].address, request.wr_id);
      ASSERT_EQ(request.segments[0].key, request.wr_id);
      ++taken[request.wr_id];
      --left;
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(post, 0);
  threads.emplace_back(post, kEach);
  threads.emplace_back(take);
  take();
  for (auto& thread : threads) thread.join();
  for (const auto& count : taken) ASSERT_EQ(count, 1);
}

}  // namespace
}  // namespace verbatim::adapter

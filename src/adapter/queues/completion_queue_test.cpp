#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/queues/completion_queue_test_util.h"
#include "base/time.h"

namespace verbatim::adapter {
namespace {

using Status = CompletionStatus;

TEST_F(CompletionQueueTest, RefusesCapacitiesThatItCannotHave) {
  for (const std::uint32_t capacity : {0U, kCompletionsMax + 1, 0xffffffffU}) {
    const auto refused = CompletionQueue::create(*arena_, {.capacity = capacity});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EINVAL);
  }
  EXPECT_EQ(make(kCompletionsMax)->capacity(), kCompletionsMax);
  EXPECT_GE(make(100)->capacity(), 100U);
}

TEST_F(CompletionQueueTest, GivesEntriesInOrderAcrossTheRingsEnd) {
  const auto queue = make(4);
  EXPECT_TRUE(queue->empty());
  EXPECT_EQ(poll(*queue, 4), Ids{});
  for (std::uint64_t id = 0; id < 30; id += 3) {
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(push(*queue, id + i));
    EXPECT_FALSE(queue->empty());
    EXPECT_EQ(poll(*queue, 2), (Ids{id, id + 1}));
    EXPECT_EQ(poll(*queue, 2), (Ids{id + 2}));
    EXPECT_TRUE(queue->empty());
  }
}

TEST_F(CompletionQueueTest, EntriesComeBackWhole) {
  const auto queue = make(1);
  const Completion entry{.wr_id = ~0ULL,
                         .status = Status::rnr_retry_exceeded,
                         .opcode = CompletionOpcode::receive_write_with_immediate,
                         .service_level = 7,
                         .path_bits = 8,
                         .vendor_error = 2,
                         .byte_count = 3,
                         .immediate = 4,
                         .qpn = 5,
                         .source_qpn = 6,
                         .flags = kCompletionGrh | kCompletionWithImmediate,
                         .pkey_index = 1,
                         .source_lid = 9};
  queue->push(entry, false);
  std::array<Completion, 1> out;
  ASSERT_EQ(queue->poll(out), 1U);
  EXPECT_EQ(std::memcmp(&out[0], &entry, offsetof(Completion, generation)), 0);
}

TEST_F(CompletionQueueTest, LeavesItsMemoryZeroedForTheNext) {
  constexpr std::uint32_t kCapacity = 128;
  constexpr std::size_t kBytes = kCapacity * sizeof(Completion);
  for (const std::uint64_t count : {0u, 3u, kCapacity - 1, kCapacity, 3 * kCapacity}) {
    auto queue = make(kCapacity);
    for (std::uint64_t id = 0; id < count; ++id) {
      ASSERT_TRUE(push(*queue, ~id));
      EXPECT_EQ(poll(*queue, 1), Ids{~id});
    }
    queue.reset();
    const auto block = *arena_->allocate(kBytes);
    const std::span bytes(arena_->at(block), kBytes);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte it) { return it == std::byte{0}; }));
    arena_->free(block, kBytes);
  }
}

TEST_F(CompletionQueueTest, ForgetsTheEntriesOfOneQueuePair) {
  const auto queue = make(4);
  for (std::uint64_t id = 0; id < 3; ++id) push(*queue, id);
  EXPECT_EQ(poll(*queue, 3), (Ids{0, 1, 2}));
  for (std::uint64_t id = 3; id < 7; ++id) {
    queue->push({.wr_id = id, .qpn = id % 2 == 0 ? 8u : 9u}, false);
  }
  queue->forget(Qpn(8));
  EXPECT_EQ(poll(*queue, 4), (Ids{3, 5}));
  EXPECT_TRUE(queue->empty());
  push(*queue, 9);
  EXPECT_EQ(poll(*queue, 4), Ids{9});
}

TEST_F(CompletionQueueTest, EntriesKeepTheirNumbersWhenOthersAreForgotten) {
  const auto queue = make(8);
  for (const std::uint32_t qpn : {7u, 8u, 9u, 8u, 9u, 7u}) queue->push({.qpn = qpn}, false);
  queue->forget(Qpn(8));
  EXPECT_EQ(queue->polled(), 0u);
  queue->forget(Qpn(7));
  EXPECT_EQ(queue->polled(), 2u);
  std::uint64_t number = 0;
  queue->push({.qpn = 7}, false, &number);
  EXPECT_EQ(number, 6u);
  for (const std::uint64_t next : {4u, 6u, 7u}) {
    poll(*queue, 1);
    EXPECT_EQ(queue->polled(), next);
  }
}

TEST_F(CompletionQueueTest, OverrunIsForGoodAndReportedOnce) {
  const auto queue = make(2);
  for (std::uint64_t id = 0; id < queue->capacity(); ++id) ASSERT_TRUE(push(*queue, id));
  EXPECT_EQ(errors(), 0);
  EXPECT_FALSE(push(*queue, 100));
  EXPECT_EQ(errors(), 1);
  EXPECT_FALSE(push(*queue, 101));
  EXPECT_EQ(errors(), 0);
  EXPECT_EQ(poll(*queue, 8), (Ids{0, 1}));
  EXPECT_FALSE(push(*queue, 102));
  EXPECT_EQ(poll(*queue, 8), Ids{});
}

TEST_F(CompletionQueueTest, TellsOnceForEachRequest) {
  const auto queue = make(8);
  push(*queue, 0);
  EXPECT_EQ(events(), 0);
  queue->arm(false);  // Existing entries do not notify.
  EXPECT_TRUE(queue->armed());
  EXPECT_EQ(events(), 0);
  push(*queue, 1);
  EXPECT_FALSE(queue->armed());
  push(*queue, 2);
  EXPECT_EQ(events(), 1);
  queue->arm(false);
  queue->arm(false);
  push(*queue, 3);
  push(*queue, 4);
  EXPECT_EQ(events(), 1);
}

TEST_F(CompletionQueueTest, SolicitedOnlyWaitsForSolicitedOrFailed) {
  const auto queue = make(8);
  queue->arm(true);
  push(*queue, 0);
  EXPECT_TRUE(queue->armed());
  EXPECT_EQ(events(), 0);
  push(*queue, 1, true);
  EXPECT_EQ(events(), 1);
  queue->arm(true);
  push(*queue, 2, false, Status::flushed);
  EXPECT_EQ(events(), 1);
}

TEST_F(CompletionQueueTest, RequestForAnyStandsAgainstALaterOneForSolicited) {
  const auto queue = make(8);
  queue->arm(false);
  queue->arm(true);
  push(*queue, 0);
  EXPECT_EQ(events(), 1);
  queue->arm(true);
  queue->arm(false);
  push(*queue, 1);
  EXPECT_EQ(events(), 1);
}

TEST_F(CompletionQueueTest, OverrunThatIsIgnoredLosesTheOldest) {
  const auto queue = std::move(*CompletionQueue::create(
      *arena_, {.capacity = 4, .events = &async_events_, .ignores_overrun = true}));
  for (std::uint64_t id = 0; id < 6; ++id) ASSERT_TRUE(push(*queue, id));
  EXPECT_EQ(errors(), 0);
  EXPECT_EQ(poll(*queue, 8), (Ids{2, 3, 4, 5}));
}

TEST_F(CompletionQueueTest, ResizedQueueKeepsItsEntriesInOrder) {
  const auto queue = make(4);
  for (std::uint64_t id = 0; id < 3; ++id) push(*queue, id);
  EXPECT_EQ(poll(*queue, 2), (Ids{0, 1}));
  for (std::uint64_t id = 3; id < 6; ++id) push(*queue, id);  // 2 to 5; wraps around.
  ASSERT_TRUE(queue->resize(16));
  EXPECT_EQ(queue->capacity(), 16u);
  for (std::uint64_t id = 6; id < 18; ++id) ASSERT_TRUE(push(*queue, id));
  EXPECT_EQ(poll(*queue, 10), (Ids{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  const auto refused = queue->resize(5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  ASSERT_TRUE(queue->resize(6));
  EXPECT_EQ(poll(*queue, 10), (Ids{12, 13, 14, 15, 16, 17}));
}

TEST_F(CompletionQueueTest, EntriesTellWhenTheyCameWhereAsked) {
  const auto timed =
      std::move(*CompletionQueue::create(*arena_, {.capacity = 4, .timestamps = true}));
  const auto before = monotonic_now();
  push(*timed, 1);
  std::array<Completion, 1> entry;
  ASSERT_EQ(timed->poll(entry), 1u);
  EXPECT_GE(entry[0].timestamp, before);
  EXPECT_LE(entry[0].timestamp, monotonic_now());
}

TEST_F(CompletionQueueTest, EntryThatOverrunsDoesNotTell) {
  const auto queue = make(1);
  push(*queue, 0);
  queue->arm(false);
  EXPECT_FALSE(push(*queue, 1));
  EXPECT_EQ(events(), 0);
}

TEST_F(CompletionQueueTest, WithoutChannelArmingTellsNobody) {
  const auto queue = std::move(*CompletionQueue::create(*arena_, {.capacity = 4}));
  queue->arm(false);
  EXPECT_TRUE(push(*queue, 0));
  EXPECT_FALSE(queue->armed());
}

TEST_F(CompletionQueueTest, DestroyingDropsItsUndeliveredEventsOnly) {
  auto first = make(4);
  const auto second = make(4);
  for (CompletionQueue* queue : {first.get(), second.get()}) {
    queue->arm(false);
    push(*queue, 0);
  }
  first.reset();
  const auto told = take_completion_event(channel_);
  ASSERT_TRUE(told);
  EXPECT_EQ(*told, second.get());
  EXPECT_EQ((*told)->owner(), this);
  second->acknowledge_events(1);
  EXPECT_EQ(events(), 0);
}

TEST_F(CompletionQueueTest, DestroyingWaitsForAcknowledgements) {
  auto queue = make(8);
  for (std::uint64_t id = 0; id < 4; ++id) {
    queue->arm(false);
    push(*queue, id);
    if (id < 3) {
      ASSERT_TRUE(take_completion_event(channel_));
    }
  }
  queue->acknowledge_events(1);
  std::atomic<bool> destroyed = false;
  CompletionQueue* const raw_queue = queue.get();
  std::thread destroyer([&] {
    queue.reset();
    destroyed = true;
  });
  // The undelivered event is dropped when the destructor has begun, which must now wait.
  for (pollfd entry{channel_.fd(), POLLIN, 0}; ::poll(&entry, 1, 0) == 1;)
    std::this_thread::yield();
  bool too_early = false;
  for (int i = 0; i < 2000; ++i) {
    too_early = too_early || destroyed;
    std::this_thread::yield();
  }
  EXPECT_FALSE(too_early);
  if (!too_early) raw_queue->acknowledge_events(2);
  destroyer.join();
}

TEST_F(CompletionQueueTest, DestroyedQueuesMemoryIsUsedAgain) {
  make(1000);
  const auto before = arena_->allocate(64)->value;
  for (int i = 0; i < 100; ++i) make(1000);
  EXPECT_LE(arena_->allocate(64)->value, before + 4096);
}

TEST_F(CompletionQueueTest, ForkedChildFindsItEmptyAndLeavesTheParentsAlone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer keeps shadow memory for the arena, which a child does not have";
#endif
  auto queue = make(4);
  push(*queue, 5);
  const pid_t child = fork();
  if (child == 0) {
    arena_->abandon_in_child();
    const bool empty = queue->empty() && poll(*queue, 4).empty();
    queue->arm(false);
    const bool refused = !push(*queue, 6);
    queue.reset();
    _exit(empty && refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(poll(*queue, 4), Ids{5});
}

}  // namespace
}  // namespace verbatim::adapter

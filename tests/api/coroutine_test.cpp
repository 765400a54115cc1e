#include <chrono>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;
using std::chrono::milliseconds;
using std::chrono::seconds;

Task<Status> receive_within(QueuePair& queue_pair, const ProtectionDomain& domain,
                            std::chrono::nanoseconds timeout) {
  Buffer own = domain.allocate(4096).value();
  const auto end = co_await with_timeout(queue_pair.receive(own.slice()), timeout);
  co_return end ? Status::success : end.error().status;
}

TEST(CoroutineTimeout, EndsTheWaitAndLeavesTheBufferToTheRequest) {
  Pair pair;
  EXPECT_EQ(run(pair.peer.completions(), receive_within(pair.peer, pair.domain, milliseconds(1))),
            Status::timed_out);
  // The coroutine and its buffer are destroyed; the message still arrives in the memory.
  EXPECT_EQ(pair.peer.native() != nullptr, true);
  const auto sent = pair.asker.send(pair.here.slice(0, 100)).wait_for(seconds(10));
  EXPECT_TRUE(sent) << sent.error().message();
}

TEST(CoroutineTimeout, IsNotSeenWhereTheRequestCompletesBefore) {
  Pair pair;
  Task<Status> task = receive_within(pair.peer, pair.domain, seconds(60));
  task.start();
  ASSERT_TRUE(pair.asker.send(pair.here.slice(0, 8)).wait());
  while (!task.done()) pair.peer.completions().wait();
  EXPECT_EQ(task.result(), Status::success);
}

Task<int> receive_patiently(QueuePair& queue_pair, Slice into) {
  int waits = 0;
  RequestToken token = queue_pair.receive(into);
  for (;;) {
    ++waits;
    if (co_await with_timeout(token, milliseconds(1))) co_return waits;
    if (waits == 3) break;
  }
  co_return -1;
}

TEST(CoroutineTimeout, ATokenMayBeAwaitedAgain) {
  Pair pair;
  EXPECT_EQ(run(pair.peer.completions(), receive_patiently(pair.peer, pair.there.slice(0, 8))), -1);
}

TEST(CoroutineTimeout, ThoseOfManyEndInTheirOrder) {
  Pair pair;
  std::string order;
  const auto wait = [&](char name, int ms) -> Task<> {
    static_cast<void>(
        co_await with_timeout(pair.peer.receive(pair.there.slice(0, 8)), milliseconds(ms)));
    order += name;
  };
  Task<> third = wait('3', 30);
  Task<> first = wait('1', 1);
  Task<> second = wait('2', 10);
  Task<> never = wait('4', 20);
  third.start(), first.start(), second.start(), never.start();
  never.cancel();
  while (!third.done()) pair.peer.completions().wait();
  EXPECT_EQ(order, "123");
}

/// A coroutine that reports its progress and has its own buffer.
Task<> writes(QueuePair& queue_pair, const ProtectionDomain& domain, RemoteSlice to, int& steps) {
  Buffer own = domain.allocate(4096).value();
  ++steps;
  static_cast<void>(co_await queue_pair.write(own.slice(0, 8), to));
  ++steps;
}

TEST(CoroutineCancel, BeforeItHasBegun) {
  Pair pair;
  int steps = 0;
  writes(pair.asker, pair.domain, pair.there.token(), steps).cancel();
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(pair.asker.in_flight(), 0u);
}

TEST(CoroutineCancel, WhileTheRequestIsUnderWay) {
  Pair pair;
  int steps = 0;
  Task<> task = writes(pair.asker, pair.domain, pair.there.token(), steps);
  task.start();
  EXPECT_EQ(pair.asker.in_flight(), 1u);
  task.cancel();
  EXPECT_TRUE(pair.asker.drain());
  EXPECT_EQ(steps, 1);
}

TEST(CoroutineCancel, BetweenCompletionAndResumption) {
  Pair pair;
  int steps = 0;
  Task<> task = writes(pair.asker, pair.domain, pair.there.token(), steps);
  task.start();
  // Arming takes completions, but leaves callbacks and coroutines to the next poll.
  while (pair.asker.in_flight() != 0) static_cast<void>(pair.asker.completions().arm());
  EXPECT_FALSE(pair.asker.completions().arm()) << "somebody waits to be resumed";
  EXPECT_EQ(steps, 1);
  task.cancel();
  pair.asker.completions().poll();
  EXPECT_EQ(steps, 1);
  EXPECT_TRUE(pair.asker.drain());
}

Task<> cancels(QueuePair& queue_pair, Slice from, RemoteSlice to, Task<>& other) {
  static_cast<void>(co_await queue_pair.write(from, to));
  other.cancel();
}

TEST(CoroutineCancel, ByAnotherThatIsResumedBeforeIt) {
  Pair pair;
  int steps = 0;
  Task<> second;
  Task<> first = cancels(pair.asker, pair.here.slice(0, 8), pair.there.token(), second);
  second = writes(pair.asker, pair.domain, pair.there.token(), steps);
  first.start();
  second.start();
  while (pair.asker.in_flight() != 0) static_cast<void>(pair.asker.completions().arm());
  pair.asker.completions().poll();
  EXPECT_TRUE(first.done());
  EXPECT_EQ(steps, 1);
}

TEST(CoroutineCancel, WithItsTimerRunning) {
  Pair pair;
  {
    Task<Status> task = receive_within(pair.peer, pair.domain, milliseconds(1));
    task.start();
  }
  EXPECT_EQ(pair.peer.completions().wait(milliseconds(5)), 0);
}

TEST(Coroutine, IsResumedWhenItsQueuePairEnds) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  Task<Status> task;
  {
    auto ends = kit::connect_both(domain);
    task = receive_within(ends.second, domain, seconds(60));
    task.start();
  }
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.result(), Status::flushed);
}

Task<int> seven() { co_return 7; }
Task<int> twice(Task<int>& task) { co_return 2 * co_await std::move(task); }

TEST(Coroutine, StartsOnceAndIsAwaitedByAnother) {
  Pair pair;
  Task<int> inner = seven();
  inner.start();
  inner.start();
  EXPECT_EQ(run(pair.asker.completions(), twice(inner)), 14);
  Task<std::unique_ptr<int>> moved = []() -> Task<std::unique_ptr<int>> {
    co_return std::make_unique<int>(3);
  }();
  EXPECT_EQ(*run(pair.asker.completions(), std::move(moved)), 3);
  Task<> throws = []() -> Task<> {
    throw Error(Failure{.status = Status::refused});
    co_return;
  }();
  EXPECT_THROW(run(pair.asker.completions(), std::move(throws)), Error);
}

}  // namespace
}  // namespace verbatim

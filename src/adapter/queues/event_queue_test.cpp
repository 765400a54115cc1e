#include "adapter/queues/event_queue.h"

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

namespace verbatim::adapter {
namespace {

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// Both ways of reading: with RWF_NOWAIT, if this kernel has it, and without.
class SemaphoreTest : public testing::TestWithParam<bool> {
 protected:
  Semaphore semaphore_ = *Semaphore::create(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Nowait, SemaphoreTest, testing::Values(false, true));

TEST_P(SemaphoreTest, CountsAndIsReadableWhileThereIsOne) {
  EXPECT_FALSE(readable(semaphore_.fd()));
  EXPECT_FALSE(semaphore_.try_take());
  semaphore_.post();
  semaphore_.post();
  EXPECT_TRUE(readable(semaphore_.fd()));
  EXPECT_TRUE(semaphore_.try_take());
  EXPECT_TRUE(readable(semaphore_.fd()));
  EXPECT_TRUE(semaphore_.wait());
  EXPECT_FALSE(readable(semaphore_.fd()));
  EXPECT_FALSE(semaphore_.try_take());
}

TEST_P(SemaphoreTest, TryTakeNeverWaitsOnABlockingDescriptor) {
  EXPECT_EQ(fcntl(semaphore_.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(semaphore_.try_take());
}

TEST_P(SemaphoreTest, NonBlockingDescriptorGivesEagain) {
  set_nonblocking(semaphore_.fd());
  const auto nothing = semaphore_.wait();
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, EAGAIN);
  semaphore_.post();
  EXPECT_TRUE(semaphore_.wait());
}

TEST_P(SemaphoreTest, WaitSleepsUntilPosted) {
  std::thread poster([this] { semaphore_.post(); });
  EXPECT_TRUE(semaphore_.wait());
  poster.join();
}

TEST_P(SemaphoreTest, SignalEndsTheWait) {
  struct sigaction nothing{};
  nothing.sa_handler = [](int) {};  // Without SA_RESTART.
  struct sigaction before{};
  sigaction(SIGUSR1, &nothing, &before);
  std::atomic<bool> ended = false;
  std::atomic<int> code = 0;
  std::thread waiter([&] {
    const auto taken = semaphore_.wait();
    code = taken ? 0 : taken.error().code;
    ended = true;
  });
  while (!ended) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(code, EINTR);
}

TEST_P(SemaphoreTest, TakersThatWaitAndThatDoNotShareEveryUnitOnce) {
  constexpr int kUnits = 2000;
  std::atomic<int> taken = 0;
  std::thread waiter([&] {
    for (int i = 0; i < kUnits; ++i) taken += semaphore_.wait() ? 1 : 0;
  });
  std::thread poster([&] {
    for (int i = 0; i < 2 * kUnits; ++i) semaphore_.post();
  });
  for (int mine = 0; mine < kUnits;) {
    if (semaphore_.try_take()) ++mine;
  }
  waiter.join();
  poster.join();
  EXPECT_EQ(taken, kUnits);
  EXPECT_FALSE(semaphore_.try_take());
}

TEST(Semaphore, MovingKeepsTheDescriptor) {
  Semaphore first = *Semaphore::create();
  const int fd = first.fd();
  Semaphore second = std::move(first);
  EXPECT_EQ(second.fd(), fd);
  first = std::move(second);
  first.post();
  EXPECT_TRUE(first.try_take());
}

TEST(EventQueue, GivesEventsInOrder) {
  EventQueue<int> events(*Semaphore::create());
  events.push(1);
  events.push(2);
  EXPECT_EQ(*events.wait(), 1);
  EXPECT_EQ(*events.wait(), 2);
  set_nonblocking(events.fd());
  EXPECT_EQ(events.wait().error().code, EAGAIN);
}

TEST(EventQueue, RemovedEventsMakeItUnreadable) {
  EventQueue<int> events(*Semaphore::create());
  for (const int event : {1, 2, 1, 3}) events.push(event);
  EXPECT_EQ(events.remove_if([](int event) { return event == 1; }), 2U);
  EXPECT_EQ(*events.wait(), 2);
  EXPECT_TRUE(readable(events.fd()));
  EXPECT_EQ(*events.wait(), 3);
  EXPECT_FALSE(readable(events.fd()));
}

TEST(EventQueue, EveryEventIsEitherTakenOrRemoved) {
  for (const bool without_nowait : {false, true}) {
    constexpr int kEvents = 5000;
    EventQueue<int> events(*Semaphore::create(without_nowait));
    int counted = 0;  // Protected by the queue's lock.
    std::thread taker([&] {
      while (*events.wait([&](int event) { counted += event == 0 ? 0 : 1; }) != 0) {
      }
    });
    std::atomic<bool> pushed = false;
    std::size_t removed = 0;
    std::thread remover([&] {
      while (!pushed) removed += events.remove_if([](int event) { return event == 1; });
    });
    for (int i = 0; i < kEvents; ++i) events.push(i % 2 + 1);
    pushed = true;
    remover.join();
    events.push(0);
    taker.join();
    EXPECT_EQ(static_cast<std::size_t>(counted) + removed, kEvents);
    EXPECT_FALSE(readable(events.fd()));
  }
}

}  // namespace
}  // namespace verbatim::adapter

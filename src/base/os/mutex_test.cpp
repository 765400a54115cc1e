#include "base/os/mutex.h"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(Mutex, IsTakenOnce) {
  Mutex mutex;
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

/// More threads than CPUs, and a holder that yields: covers all ways of waiting.
TEST(Mutex, OneThreadAtATimeIsWithin) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 2'000;
  Mutex mutex;
  int count = 0;  // Not atomic.
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const std::lock_guard guard(mutex);
          const int before = count;
          if (round % 16 == 0) std::this_thread::yield();
          count = before + 1;
        }
      });
    }
  }
  EXPECT_EQ(count, kThreads * kRounds);
}

}  // namespace
}  // namespace verbatim

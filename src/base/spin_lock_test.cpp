#include "base/spin_lock.h"

#include <mutex>
#include <thread>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

static_assert(sizeof(SpinLock) == 4);

TEST(SpinLock, OneOwnerAtATime) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(SpinLock, GuardsAPlainCounter) {
  SpinLock lock;
  long counter = 0;
  const auto work = [&] {
    for (int i = 0; i < 20'000; ++i) {
      const std::scoped_lock guard(lock);
      ++counter;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(counter, 40'000);
}

}  // namespace
}  // namespace verbatim

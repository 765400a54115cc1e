#include "base/os/spin_lock.h"

#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// In a new mount namespace, with a child that has no /proc.
TEST(SpinLock, IsTakenFromNoThreadOfItsProcessWithoutProc) {
  const pid_t child = fork();
  if (child == 0) {
    const bool hidden = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                        mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
    if (!hidden) _exit(77);
    SpinLock lock;
    lock.lock();
    for (unsigned spins = 1; spins <= 100'000; ++spins) lock.wait(spins);
    _exit(lock.is_locked() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(status, 0);
}

TEST(SpinLock, IsTakenOverFromAProcessThatWasKilled) {
  void* const shared =
      mmap(nullptr, sizeof(SpinLock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const lock = new (shared) SpinLock;
  const pid_t child = fork();
  if (child == 0) {
    renew_own_process_token();
    lock->lock();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(lock->is_locked());
  // Few spins: if other threads want the CPU, each yield takes milliseconds.
  for (unsigned spins = 1; spins <= 256; ++spins) lock->wait(spins);
  EXPECT_FALSE(lock->is_locked());
  lock->lock();
  lock->unlock();
  EXPECT_FALSE(lock->is_locked());
  munmap(shared, sizeof(SpinLock));
}

}  // namespace
}  // namespace verbatim

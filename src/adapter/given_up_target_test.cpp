#include <atomic>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "arena/target.h"

/// A target whose holder lives and does not go on.
namespace verbatim::arena {
namespace {

struct StoppedHolder : testing::Test {
  StoppedHolder() { EXPECT_TRUE(target->lock.try_lock()); }
  const std::unique_ptr<DirectTarget> target = std::make_unique<DirectTarget>();
};

TEST_F(StoppedHolder, IsNotWaitedForByWhoAsks) { EXPECT_FALSE(lock_soon(*target)); }

TEST_F(StoppedHolder, IsGivenUpByTheOwnerAndThenBeginsNoStep) {
  EXPECT_FALSE(lock_or_give_up(*target));
  EXPECT_FALSE(target->begin_step());
  EXPECT_FALSE(target->in_step);
  EXPECT_FALSE(take_back(*target));
  target->lock.unlock();
  EXPECT_TRUE(take_back(*target));
  EXPECT_TRUE(target->begin_step());
}

TEST_F(StoppedHolder, IsWaitedForWhileItIsInAStep) {
  ASSERT_TRUE(target->begin_step());
  std::atomic<bool> has_ended{false};
  bool is_locked = true;
  std::thread owner([&] {
    is_locked = lock_or_give_up(*target);
    has_ended = true;
  });
  for (int tries = 0; tries < 3; ++tries) {
    while (!target->given_up) std::this_thread::yield();
    while (target->given_up) std::this_thread::yield();
  }
  EXPECT_FALSE(has_ended);
  target->end_step();
  owner.join();
  EXPECT_FALSE(is_locked);
  EXPECT_TRUE(target->given_up);
}

/// The calls of membarrier by a thread whose kernel has none. A handler of the signal stands in,
/// and changes no register: the caller gets the call's number, or its first argument. Neither is a
/// success, nor a set of commands that has the one for all processors.
struct Barriers {
  static inline const DirectTarget* target = nullptr;
  static inline std::atomic<int> calls{0};
  static inline std::atomic<bool> saw_given_up{false};

  static void on_call(int, siginfo_t*, void*) {
    if (target->given_up) saw_given_up = true;
    ++calls;
  }
  /// From now on this thread's calls are trapped. Returns false if the kernel cannot.
  static bool trap() {
    struct sigaction action{};
    action.sa_sigaction = on_call;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = std::size(filter), .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }
};

/// Not even for a moment: the holder would lose a step of which nobody had made sure.
TEST_F(StoppedHolder, IsNeverGivenUpWithoutABarrierOfAllProcessors) {
  Barriers::target = target.get();
  std::atomic<bool> can_trap{true};
  bool is_locked = false;
  std::thread owner([&] {
    can_trap = Barriers::trap();
    if (can_trap) is_locked = lock_or_give_up(*target);
  });
  while (can_trap && Barriers::calls < 3) std::this_thread::yield();
  target->lock.unlock();
  owner.join();
  if (!can_trap) GTEST_SKIP() << "seccomp is not possible here";
  EXPECT_TRUE(is_locked);
  EXPECT_FALSE(Barriers::saw_given_up);
}

TEST_F(StoppedHolder, ThatGoesOnIsNotGivenUp) {
  std::thread holder([this] { target->lock.unlock(); });
  EXPECT_TRUE(lock_or_give_up(*target));
  EXPECT_FALSE(target->given_up);
  holder.join();
}

}  // namespace
}  // namespace verbatim::arena

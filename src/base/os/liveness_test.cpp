#include "base/os/liveness.h"

#include <csignal>
#include <cstddef>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim {
namespace {

Liveness* in_shared_memory() {
  void* const place =
      mmap(nullptr, sizeof(Liveness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (place) Liveness;
}

/// QEMU's user-mode emulation has no robust lists.
bool has_robust_lists() {
  void* head = nullptr;
  std::size_t length = 0;
  return syscall(SYS_get_robust_list, 0, &head, &length) == 0 && head != nullptr;
}

TEST(Liveness, EndsWithItsThread) {
  if (!has_robust_lists()) GTEST_SKIP() << "no set_robust_list(2) here";
  Liveness* const life = in_shared_memory();
  EXPECT_FALSE(life->has_ended());
  std::thread([life] {
    life->begin();
    EXPECT_FALSE(life->has_ended());
  }).join();
  EXPECT_TRUE(life->has_ended());
}

TEST(Liveness, AThreadThatLetsGoHasNotEnded) {
  Liveness* const life = in_shared_memory();
  std::thread([life] {
    life->begin();
    life->end();
  }).join();
  EXPECT_FALSE(life->has_ended());
}

TEST(Liveness, OfAKilledProcessHasEndedWhenItIsWaitedFor) {
  if (!has_robust_lists()) GTEST_SKIP() << "no set_robust_list(2) here";
  for (int i = 0; i < 50; ++i) {
    Liveness* const life = in_shared_memory();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::thread([&] {
        life->begin();
        if (write(ends[1], "", 1) != 1) _exit(1);
        for (;;) pause();
      }).join();
    }
    char begun = 0;
    ASSERT_EQ(read(ends[0], &begun, 1), 1);
    EXPECT_FALSE(life->has_ended());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(life->has_ended());
    close(ends[0]);
    close(ends[1]);
    munmap(life, sizeof(Liveness));
  }
}

}  // namespace
}  // namespace verbatim

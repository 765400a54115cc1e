#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "private_memory.h"

/// Children of a program whose memory is registered.
namespace verbs_test {
namespace {

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void forked_child_has_a_copy(Memory& memory) {
  memory.enrol();
  const pid_t child = fork();
  if (child == 0) {
    free(malloc(1 << 20));
    _exit(std::exchange(memory.at()[100], std::byte{'c'}) == std::byte{'x'} ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(memory.at()[100], std::byte{'x'});
  memory.end();
}

void child_without_handlers_lives(Memory& memory) {
  memory.enrol();
  const pid_t child = _Fork();
  if (child == 0) {
    execl(memory.at(3)[100] == std::byte{'x'} ? "/bin/true" : "/bin/false", "child", nullptr);
    _exit(2);
  }
  EXPECT_EQ(status_of(child), 0);
  memory.end();
}

void spawned_program_runs(Memory& memory) {
  memory.enrol();
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  pid_t child = -1;
  ASSERT_EQ(posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ), 0);
  EXPECT_EQ(status_of(child), 0);
  memory.end();
}

void child_of_vfork_runs(Memory& memory) {
  memory.enrol();
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(2);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(memory.at()[100], std::byte{'x'});
  memory.end();
}

/// The child goes on as a daemon, and what it writes is its own.
void daemon_has_a_copy(Memory& memory) {
  memory.enrol();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (daemon(1, 1) != 0) _exit(1);
    free(malloc(1 << 20));
    const std::byte seen = std::exchange(memory.at(1)[100], std::byte{'d'});
    _exit(write(ends[1], &seen, 1) == 1 ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  std::byte seen{};
  EXPECT_EQ(read(ends[0], &seen, 1), 1);
  EXPECT_EQ(seen, std::byte{'x'});
  EXPECT_EQ(memory.at(1)[100], std::byte{'x'});
  close(ends[0]);
  close(ends[1]);
  memory.end();
}

/// As Python's multiprocessing does: forks while other threads allocate.
void children_of_busy_parents_live(Memory& memory) {
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    for (std::size_t size = 1; !stop; size = size * 3 % 100'003 + 1) free(malloc(size));
  });
  memory.enrol();
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      free(malloc(1 << 20));
      _exit(memory.at(2)[100] == std::byte{'x'} ? 0 : 1);
    }
    EXPECT_EQ(status_of(child), 0);
  }
  stop = true;
  thread.join();
  memory.end();
}

constexpr Promise kPromisesToChildren[] = {
    {"ForkedChildHasACopy", forked_child_has_a_copy},
    {"ChildWithoutHandlersLives", child_without_handlers_lives},
    {"SpawnedProgramRuns", spawned_program_runs},
    {"ChildOfVforkRuns", child_of_vfork_runs},
    {"DaemonHasACopy", daemon_has_a_copy},
    {"ChildrenOfBusyParentsLive", children_of_busy_parents_live},
};

INSTANTIATE_TEST_SUITE_P(Children, PrivateMemory,
                         testing::Combine(testing::ValuesIn(kPromisesToChildren), testing::Bool()),
                         name_of);

}  // namespace
}  // namespace verbs_test

#include "base/os/process_token.h"

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim {
namespace {

TEST(ProcessToken, NamesThisProcess) {
  EXPECT_EQ(process_id_of(own_process_token()), static_cast<std::uint32_t>(getpid()));
  EXPECT_TRUE(process_lives(own_process_token()));
}

TEST(ProcessToken, ANumberThatNoProcessHasIsDead) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_lives(static_cast<ProcessToken>(child) << 10));
}

/// /proc shows such a process as a zombie, although another of its threads runs.
TEST(ProcessToken, AProcessLivesWhoseFirstThreadHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([] {
      for (;;) pause();
    }).detach();
    syscall(SYS_exit, 0);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/stat";
  const auto state = [&] {
    std::string text;
    std::getline(std::ifstream(path), text);
    return text.at(text.rfind(')') + 2);
  };
  while (state() != 'Z') std::this_thread::yield();
  EXPECT_TRUE(process_lives(static_cast<ProcessToken>(child) << 10));
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process_lives(static_cast<ProcessToken>(child) << 10));
  waitpid(child, nullptr, 0);
}

/// Another process has its number by now; here, the parent's.
TEST(ProcessToken, OneThatIsKnownToHaveEndedIsDeadAsLongAsThatIsSaid) {
  const auto other = static_cast<ProcessToken>(getppid()) << 10;
  EXPECT_TRUE(process_lives(other));
  {
    const KnownEnd known(other);
    EXPECT_FALSE(process_lives(other));
  }
  EXPECT_TRUE(process_lives(other));
}

TEST(ProcessToken, WithoutADescriptorLeftTheLivingLive) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NOFILE, &none);
    const auto parent = static_cast<ProcessToken>(getppid()) << 10;
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(0);
    waitpid(grandchild, nullptr, 0);
    const auto ended = static_cast<ProcessToken>(grandchild) << 10;
    _exit(process_lives(parent) && !process_lives(ended) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ProcessToken, AProcessThatWasKilledDoesNotLiveAlsoWhileNobodyHasWaitedForIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    renew_own_process_token();
    const ProcessToken token = own_process_token();
    if (write(ends[1], &token, sizeof token) != sizeof token) _exit(1);
    for (;;) pause();
  }
  ProcessToken token = 0;
  ASSERT_EQ(read(ends[0], &token, sizeof token), static_cast<ssize_t>(sizeof token));
  EXPECT_EQ(process_id_of(token), static_cast<std::uint32_t>(child));
  EXPECT_TRUE(process_lives(token));
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process_lives(token)) << "it is a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_lives(token));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace verbatim

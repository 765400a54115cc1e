#include "base/process_token.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim {
namespace {

TEST(ProcessToken, NamesThisProcess) {
  EXPECT_EQ(process_id_of(own_process_token()), static_cast<std::uint32_t>(getpid()));
  EXPECT_TRUE(process_lives(own_process_token()));
}

TEST(ProcessToken, AnotherProcessWithTheSameNumberIsNotIt) {
  EXPECT_FALSE(process_lives(own_process_token() ^ 1));
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

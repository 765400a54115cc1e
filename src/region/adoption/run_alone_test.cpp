#include "region/adoption/run_alone.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <semaphore>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/peer_copies.h"
#include "base/os/unique_fd.h"
#include "base/processor.h"

namespace verbatim::region {
namespace {

long nothing(void* /*unused*/) { return 0; }
long count(void* calls) {
  ++*static_cast<int*>(calls);
  return 0;
}

class RunAlone : public testing::Test {
 protected:
  void SetUp() override { let_peers_copy(); }
};

/// Returns the letter of the thread's state, as in /proc/PID/stat; '?' if there is no such thread.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos ? '?' : line[name_end + 2];
}

/// Returns when the thread sleeps, or has ended.
void await_sleep(const std::atomic<pid_t>& thread) {
  while (thread == 0) std::this_thread::yield();
  for (char state = 0; state != 'S' && state != '?'; state = state_of(thread)) {
    std::this_thread::yield();
  }
}

/// Both ends of a connection.
struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    here.reset(ends[0]);
    there.reset(ends[1]);
  }
  UniqueFd here, there;
};

bool takes_byte(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, 0) == 1;
}

struct Row {
  const char* what;
  std::function<bool(int fd)> sleeps;  // Until a byte comes; returns true if it came.
};

const Row kRows[] = {
    {"read",
     [](int fd) {
       char byte = 0;
       return read(fd, &byte, 1) == 1;
     }},
    {"recv", takes_byte},
    {"recv with a timeout",
     [](int fd) {
       const timeval limit{.tv_sec = 60, .tv_usec = 0};
       return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 && takes_byte(fd);
     }},
    {"poll",
     [](int fd) {
       pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
       return poll(&one, 1, 60'000) == 1;
     }},
    {"select",
     [](int fd) {
       fd_set set;
       FD_ZERO(&set);
       FD_SET(fd, &set);
       timeval limit{.tv_sec = 60, .tv_usec = 0};
       return select(fd + 1, &set, nullptr, nullptr, &limit) == 1;
     }},
    {"epoll_wait",
     [](int fd) {
       const UniqueFd queue(epoll_create1(EPOLL_CLOEXEC));
       epoll_event event{.events = EPOLLIN, .data = {}};
       return epoll_ctl(queue.get(), EPOLL_CTL_ADD, fd, &event) == 0 &&
              epoll_wait(queue.get(), &event, 1, 60'000) == 1;
     }},
    {"epoll_pwait",
     [](int fd) {
       const UniqueFd queue(epoll_create1(EPOLL_CLOEXEC));
       epoll_event event{.events = EPOLLIN, .data = {}};
       sigset_t none;
       sigemptyset(&none);
       return epoll_ctl(queue.get(), EPOLL_CTL_ADD, fd, &event) == 0 &&
              epoll_pwait(queue.get(), &event, 1, -1, &none) == 1;
     }},
};

TEST_F(RunAlone, CallsInWhichThreadsSleepGoOn) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    const Pair pair;
    std::atomic<pid_t> id{0};
    std::atomic<bool> has_ended{false};
    bool succeeded = false;
    std::thread thread([&] {
      id = gettid();
      succeeded = row.sleeps(pair.here.get());
      has_ended = true;
    });
    for (int i = 0; i < 20; ++i) {
      await_sleep(id);
      int calls = 0;
      const auto done = run_alone(&count, &calls);
      EXPECT_TRUE(done) << done.error().text;
      EXPECT_EQ(calls, 1);
    }
    EXPECT_FALSE(has_ended);
    EXPECT_EQ(write(pair.there.get(), "x", 1), 1);
    thread.join();
    EXPECT_TRUE(succeeded) << "errno " << errno;
  }
}

TEST_F(RunAlone, AWaitForASemaphoreOrASignalGoesOn) {
  const int set = semget(IPC_PRIVATE, 1, 0600);
  ASSERT_GE(set, 0);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  std::atomic<pid_t> ids[2] = {0, 0};
  int results[2] = {-1, -1};
  std::thread takes([&] {
    ids[0] = gettid();
    sembuf take{.sem_num = 0, .sem_op = -1, .sem_flg = 0};
    results[0] = semop(set, &take, 1);
  });
  std::thread waits([&] {
    ids[1] = gettid();
    const timespec limit{.tv_sec = 60, .tv_nsec = 0};
    results[1] = sigtimedwait(&wanted, nullptr, &limit);
  });
  for (int i = 0; i < 20; ++i) {
    for (const auto& id : ids) {
      await_sleep(id);
    }
    EXPECT_TRUE(run_alone(&nothing, nullptr));
  }
  sembuf give{.sem_num = 0, .sem_op = 1, .sem_flg = 0};
  semop(set, &give, 1);
  pthread_kill(waits.native_handle(), SIGRTMIN);
  takes.join();
  waits.join();
  semctl(set, 0, IPC_RMID);
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], SIGRTMIN);
}

std::atomic<int> handled{0};

TEST_F(RunAlone, NoSignalIsLostOrSeenTwice) {
  struct sigaction action{};
  action.sa_handler = [](int) { ++handled; };
  sigaction(SIGRTMIN + 1, &action, nullptr);
  std::atomic<bool> stop{false};
  std::atomic<int> interrupted{0};
  const Pair pair;
  std::thread thread([&] {
    pollfd one{.fd = pair.here.get(), .events = POLLIN, .revents = 0};
    while (!stop) interrupted += poll(&one, 1, 60'000) < 0 && errno == EINTR;
  });
  int sent = 0;
  std::atomic<bool> sends{true};
  std::thread sender([&] {
    while (sends) {
      pthread_kill(thread.native_handle(), SIGRTMIN + 1);
      ++sent;
      while (handled < sent) std::this_thread::yield();
    }
  });
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(run_alone(&nothing, nullptr));
  sends = false;
  sender.join();
  stop = true;
  EXPECT_EQ(write(pair.there.get(), "x", 1), 1);
  thread.join();
  EXPECT_EQ(handled, sent);
  EXPECT_LE(interrupted, sent) << "a call ended without a signal";
}

TEST_F(RunAlone, ThreadsThatComeAndGoAreStoppedToo) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> steps{0};
  std::thread starter([&] {
    while (!stop) {
      std::thread first([&] { ++steps; });
      std::thread second([&] { ++steps; });
      first.join();
      second.join();
    }
  });
  const auto stands_still = [](void* counter) -> long {
    const auto& seen = *static_cast<std::atomic<std::uint64_t>*>(counter);
    const std::uint64_t before = seen;
    for (int i = 0; i < 100; ++i) bare_system_call(SYS_sched_yield, 0, 0, 0);
    return seen == before ? 0 : -EILSEQ;
  };
  for (int i = 0; i < 200; ++i) {
    const auto done = run_alone(stands_still, &steps);
    EXPECT_TRUE(done || done.error().code == EBUSY) << done.error().text;
  }
  stop = true;
  starter.join();
}

TEST_F(RunAlone, AChildThatSharesTheMemoryIsWaitedForOrRefused) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::atomic<pid_t> id{0};
  std::thread parent([&] {
    id = gettid();
    const pid_t child = vfork();
    if (child == 0) {
      char byte = 0;
      _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    }
    waitpid(child, nullptr, 0);
  });
  while (id == 0 || state_of(id) != 'D') std::this_thread::yield();
  int calls = 0;
  const auto refused = run_alone(&count, &calls);
  EXPECT_FALSE(refused);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  parent.join();
  EXPECT_TRUE(run_alone(&count, &calls));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "the program has a child that it did not start";
  EXPECT_EQ(errno, ECHILD);
  close(ends[0]);
  close(ends[1]);
}

/// As systemd's SystemCallFilter= does. Ends this process with 0 if it is refused and lives.
void run_under_filter() {
  const sock_filter kill_for_ptrace[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(kill_for_ptrace),
                           .filter = const_cast<sock_filter*>(kill_for_ptrace)};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  const auto refused = run_alone(&nothing, nullptr);
  _exit(refused || refused.error().code != EPERM ? 1 : 0);
}

TEST(RunAloneDeathTest, AFilterThatKillsForPtraceKillsNobody) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_under_filter(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbatim::region

#include "region/adoption/run_alone.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "base/processor.h"
#include "base/time.h"

namespace verbatim::region {
namespace {

/// On a busy machine a thread is only stopped when it is its turn to run.
constexpr TimeNs kStopsWithin = 200 * kMillisecond;

/// A thread that is being stopped, or is.
struct Thread {
  int id = 0;      // 0: it has ended.
  int signal = 0;  // That was about to be delivered.
};

constexpr std::size_t kThreadsMax = 8192;  // With more, nothing moves.
constexpr std::size_t kStackBytes = 64 << 10;

/// What both processes share; mapped for one call.
struct Shared {
  alignas(16) std::array<std::byte, kStackBytes> stack;
  std::array<Thread, kThreadsMax> threads;
  std::size_t count;
  int caller;
  int folder;  // /proc/self/task
  long (*work)(void*);
  void* argument;
  long stopped;  // 0, or a negative errno: `work` was not called. Then its result.
  long result;
};

/// As linux_dirent64 of getdents64(2).
struct FolderEntry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

int number_of(const char* text) {
  int number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + (*text - '0');
  return *text == 0 ? number : 0;
}

long trace(int request, int thread, long address = 0, long data = 0) {
  return bare_system_call(SYS_ptrace, request, thread, address, data);
}

/// Returns the letter of the thread's state, as in /proc/PID/stat; 'X' if it has ended.
char state_of(int folder, int thread) {
  std::array<char, 32> path{};
  std::size_t begin = 16;
  for (int rest = thread; rest > 0; rest /= 10) path[--begin] = static_cast<char>('0' + rest % 10);
  constexpr char kFile[] = "/stat";
  for (std::size_t i = 0; i < sizeof kFile; ++i) path[16 + i] = kFile[i];
  const long fd = bare_system_call(SYS_openat, folder, reinterpret_cast<long>(path.data() + begin),
                                   O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 'X';
  std::array<char, 128> line{};
  bare_system_call(SYS_read, fd, reinterpret_cast<long>(line.data()), line.size() - 1);
  bare_system_call(SYS_close, fd, 0, 0);
  std::size_t name_end = line.size() - 3;  // "NUMBER (NAME) STATE"; a name may have parentheses.
  while (name_end > 0 && line[name_end] != ')') --name_end;
  return name_end == 0 ? 'X' : line[name_end + 2];
}

bool has_ended(int folder, int thread) {
  const char state = state_of(folder, thread);
  return state == 'Z' || state == 'X';
}

/// Begins to stop the thread, if it is not known.
long seize(Shared& shared, const char* name) {
  const int id = number_of(name);
  const std::span known(shared.threads.data(), shared.count);
  const bool is_known = std::ranges::find(known, id, &Thread::id) != known.end();
  if (id == 0 || id == shared.caller || is_known) return 0;
  if (shared.count == kThreadsMax) return -EBUSY;
  const long seized = trace(PTRACE_SEIZE, id);
  if (seized == -ESRCH || (seized == -EPERM && has_ended(shared.folder, id))) return 0;
  if (seized < 0) return seized;
  trace(PTRACE_INTERRUPT, id);
  shared.threads[shared.count++] = {.id = id, .signal = 0};
  return 0;
}

long seize_all(Shared& shared) {
  alignas(FolderEntry) std::array<char, 2048> entries;
  bare_system_call(SYS_lseek, shared.folder, 0, SEEK_SET);
  for (;;) {
    const long bytes = bare_system_call(SYS_getdents64, shared.folder,
                                        reinterpret_cast<long>(entries.data()), entries.size());
    if (bytes <= 0) return bytes;
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const FolderEntry*>(entries.data() + at);
      if (const long failed = seize(shared, entry->name); failed < 0) return failed;
      at += entry->length;
    }
  }
}

/// Most calls begin anew by themselves when their thread goes on. These tell the program that a
/// signal came (signal(7)), though none has: the kernel is told to do as for all others.
void begin_call_anew(int thread) {
  if (!kKnowsStoppedCall) return;
  constexpr std::array kCalls = {
#ifdef SYS_epoll_wait
      SYS_epoll_wait,
#endif
#ifdef SYS_epoll_pwait2
      SYS_epoll_pwait2,
#endif
      SYS_epoll_pwait,  SYS_semop,        SYS_semtimedop, SYS_rt_sigtimedwait, SYS_read,
      SYS_readv,        SYS_write,        SYS_writev,     SYS_recvfrom,        SYS_recvmsg,
      SYS_recvmmsg,     SYS_sendto,       SYS_sendmsg,    SYS_sendmmsg,        SYS_accept,
      SYS_accept4,      SYS_io_getevents,
  };
  constexpr int kPeekUser = 3;      // PTRACE_PEEKUSER and PTRACE_POKEUSER, which sys/ptrace.h has
  constexpr int kPokeUser = 6;      // for some processors alone.
  constexpr long kNoHandler = 514;  // ERESTARTNOHAND: EINTR, but only if a handler is to run.
  long call = -1;
  long result = 0;
  trace(kPeekUser, thread, kStoppedCallNumberAt, reinterpret_cast<long>(&call));
  trace(kPeekUser, thread, kStoppedCallResultAt, reinterpret_cast<long>(&result));
  if (result == -EINTR && std::ranges::find(kCalls, call) != kCalls.end()) {
    trace(kPokeUser, thread, kStoppedCallResultAt, -kNoHandler);
  }
}

/// Returns false at the deadline, or earlier if it waits for something else.
bool await_stop(Thread& thread, int folder, TimeNs deadline) {
  constexpr unsigned kYields = 200;
  int status = 0;
  for (unsigned tries = 1;; ++tries) {
    const long found =
        bare_system_call(SYS_wait4, thread.id, reinterpret_cast<long>(&status), __WALL | WNOHANG);
    if (found != 0) break;
    if (monotonic_now() >= deadline) return false;
    if (tries < kYields) {
      bare_system_call(SYS_sched_yield, 0, 0, 0);
      continue;
    }
    // For a child of vfork(2) or a disk, which may take long.
    if (tries % kYields == 0 && state_of(folder, thread.id) == 'D') return false;
    timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
    bare_system_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0);
  }
  if (!WIFSTOPPED(status)) {
    thread.id = 0;
  } else if (status >> 16 == PTRACE_EVENT_STOP) {
    begin_call_anew(thread.id);
  } else {
    thread.signal = WSTOPSIG(status);
  }
  return true;
}

/// Repeats until there is no new thread: each may have been started by one that ran still.
long stop_all(Shared& shared) {
  const TimeNs deadline = monotonic_now() + kStopsWithin;
  for (std::size_t stopped = 0;;) {
    if (const long failed = seize_all(shared); failed < 0) return failed;
    if (stopped == shared.count) return 0;
    for (; stopped < shared.count; ++stopped) {
      if (!await_stop(shared.threads[stopped], shared.folder, deadline)) return -EBUSY;
    }
  }
}

/// The other process. Its end lets threads go that have not been stopped yet.
int stop_and_work(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  shared.stopped = stop_all(shared);
  if (shared.stopped == 0) shared.result = shared.work(shared.argument);
  for (std::size_t i = 0; i < shared.count; ++i) {
    const Thread& thread = shared.threads[i];
    if (thread.id != 0) trace(PTRACE_DETACH, thread.id, 0, thread.signal);
  }
  return 0;
}

/// Blocks this thread's signals, and so those of the other process.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

/// A filter of seccomp(2) may kill whoever calls ptrace(2); on older kernels all that share its
/// memory would end with it. So a child with a copy of the memory tries first.
bool is_killed_by_filter() {
  if (prctl(PR_GET_SECCOMP) == 0) return false;
  const SignalsWait signals;
  const long child = syscall(SYS_clone, 0, nullptr, nullptr, nullptr, 0);
  if (child == 0) {
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    bare_system_call(SYS_setrlimit, RLIMIT_CORE, reinterpret_cast<long>(&no_core), 0);
    trace(PTRACE_DETACH, 0);
    bare_system_call(SYS_exit_group, 0, 0, 0);
  }
  int status = 0;
  while (child > 0 && waitpid(static_cast<pid_t>(child), &status, __WCLONE) < 0 && errno == EINTR) {
  }
  return child < 0 || WIFSIGNALED(status);
}

}  // namespace

Result<void> run_alone(long (*work)(void*), void* argument) {
  static const bool is_forbidden = is_killed_by_filter();
  if (is_forbidden) return refuse(EPERM, "a seccomp filter forbids ptrace");
  const UniqueFd folder(::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return refuse_errno("/proc/self/task");
  void* const place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return refuse_errno("mmap");
  auto& shared = *static_cast<Shared*>(place);  // All zeroes.
  shared.caller = gettid();
  shared.folder = folder.get();
  shared.work = work;
  shared.argument = argument;
  shared.stopped = -EAGAIN;
  {
    const SignalsWait signals;
    // Without a signal at its end, which the program's wait(2) does not see either.
    constexpr int kFlags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | CLONE_UNTRACED;
    const int process =
        clone(&stop_and_work, shared.stack.data() + shared.stack.size(), kFlags, &shared);
    while (process > 0 && waitpid(process, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  const long stopped = shared.stopped;
  const long result = shared.result;
  munmap(place, sizeof(Shared));
  if (stopped != 0) return refuse(static_cast<int>(-stopped), "threads cannot be stopped");
  if (result != 0) return refuse(static_cast<int>(-result), "memory cannot be exchanged");
  return {};
}

}  // namespace verbatim::region

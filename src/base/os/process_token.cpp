#include "base/os/process_token.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/unique_fd.h"

namespace verbatim {
namespace {

constexpr std::uint32_t kTimeBits = 10;

thread_local ProcessToken known_end = 0;

/// Returns the process's start time in clock ticks after boot (proc_pid_stat(5)). The name before
/// it may contain anything and ends with the last parenthesis. Without /proc: returns the current
/// time.
unsigned long long start_time() {
  unsigned long long started = 0;
  char text[1024];
  const UniqueFd file(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  const ssize_t length = file ? read(file.get(), text, sizeof text - 1) : 0;
  text[length > 0 ? length : 0] = '\0';
  const char* const name_end = std::strrchr(text, ')');
  const bool is_told =
      name_end != nullptr &&
      std::sscanf(name_end + 1,
                  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%llu",
                  &started) == 1;
  if (is_told) return started;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<unsigned long long>(now.tv_nsec);
}

}  // namespace

ProcessToken renew_own_process_token() {
  constexpr unsigned long long kMask = (1u << kTimeBits) - 1;
  const auto pid = static_cast<std::uint32_t>(getpid());
  const ProcessToken token = pid << kTimeBits | static_cast<std::uint32_t>(start_time() & kMask);
  detail::own_process_token.store(token, std::memory_order_relaxed);
  return token;
}

/// Does not use /proc: it may be missing, belong to another pid namespace, or hide processes
/// (hidepid). The kernel resolves the number in the caller's namespace. Takes some microseconds.
bool process_lives(ProcessToken token) {
  if (token == own_process_token()) return true;
  if (token == known_end) return false;
  const auto pid = static_cast<pid_t>(process_id_of(token));
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // No descriptor is left: signal 0 tells at least whether a process has the number.
  if (!process) return errno != ESRCH && (kill(pid, 0) == 0 || errno != ESRCH);
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) <= 0;
}

KnownEnd::KnownEnd(ProcessToken ended) { known_end = ended; }
KnownEnd::~KnownEnd() { known_end = 0; }

}  // namespace verbatim

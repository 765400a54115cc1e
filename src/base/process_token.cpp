#include "base/process_token.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbatim {
namespace {

constexpr std::uint32_t kTimeBits = 10;

struct ProcessStatus {
  bool is_there = false;
  char state = '?';
  unsigned long long started = 0;  // Clock ticks after boot.
};

/// proc_pid_stat(5): the name, which may hold anything, ends with the last parenthesis.
ProcessStatus read_status(std::uint32_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return {.is_there = errno != ENOENT && errno != ESRCH};
  char text[1024];
  const ssize_t length = read(file.get(), text, sizeof text - 1);
  if (length <= 0) return {.is_there = false};
  text[length] = '\0';
  ProcessStatus status{.is_there = true};
  const char* const name_end = std::strrchr(text, ')');
  if (name_end == nullptr) return status;
  std::sscanf(name_end + 1,
              " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
              &status.state, &status.started);
  return status;
}

ProcessToken token_of(std::uint32_t pid, unsigned long long started) {
  return pid << kTimeBits | static_cast<std::uint32_t>(started & ((1u << kTimeBits) - 1));
}

}  // namespace

ProcessToken renew_own_process_token() {
  const auto pid = static_cast<std::uint32_t>(getpid());
  const ProcessToken token = token_of(pid, read_status(pid).started);
  detail::own_process_token.store(token, std::memory_order_relaxed);
  return token;
}

bool process_lives(ProcessToken token) {
  const ProcessStatus status = read_status(process_id_of(token));
  if (!status.is_there || status.state == 'Z' || status.state == 'X') return false;
  return status.state == '?' || token_of(process_id_of(token), status.started) == token;
}

}  // namespace verbatim

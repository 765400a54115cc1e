#include "cli/capture/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::cli {

Result<Output> Output::open(const std::string& path) {
  if (path != "-") {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!fd) return refuse(errno, fmt::format("{}: {}", path, std::strerror(errno)));
    return Output(std::move(fd), path, false);
  }
  if (isatty(STDOUT_FILENO) != 0) {
    return refuse(EINVAL, "standard output is a terminal: name a file, or write into a pipe");
  }
  UniqueFd fd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) != 0) return refuse_errno("standard output");
  return Output(std::move(fd), "standard output", !S_ISREG(status.st_mode));
}

/// Waits until the pipe has room; once `stop` is readable, for a second only.
Result<void> Output::await_reader(int stop) const {
  constexpr int kPatienceMs = 1000;
  std::array<pollfd, 2> ready{pollfd{fd_.get(), POLLOUT, 0}, pollfd{stop, POLLIN, 0}};
  while (poll(ready.data(), ready.size(), -1) < 0) {
    if (errno != EINTR) return refuse_errno("poll");
  }
  if (ready[0].revents != 0 || poll(ready.data(), 1, kPatienceMs) > 0) return {};
  return refuse(ECANCELED, fmt::format("{}: its reader does not read", name_));
}

Result<void> Output::write(ByteSpan bytes, int stop) {
  while (!bytes.empty()) {
    std::size_t most = bytes.size();
    if (is_pipe_) {
      if (auto ready = await_reader(stop); !ready) return ready;
      most = std::min<std::size_t>(most, PIPE_BUF);  // So much is written without waiting.
    }
    const ssize_t written = ::write(fd_.get(), bytes.data(), most);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse(errno, fmt::format("{}: {}", name_, std::strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace verbatim::cli

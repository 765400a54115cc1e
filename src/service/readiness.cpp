#include "service/readiness.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"

namespace verbatim::service {
namespace {

/// sd_notify(3): a datagram to the socket that systemd names; '@' begins an abstract name.
void tell_systemd() {
  const char* const path = secure_getenv("NOTIFY_SOCKET");
  sockaddr_un address{.sun_family = AF_UNIX};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr std::string_view kReady = "READY=1";
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  sendto(socket.get(), kReady.data(), kReady.size(), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), length);
}

}  // namespace

Readiness::Readiness(UniqueFd pipe) : pipe_(std::move(pipe)) {
  fcntl(pipe_.get(), F_SETFD, FD_CLOEXEC);
}

void Readiness::tell() {
  struct stat log{};
  if (pipe_ && fstat(STDERR_FILENO, &log) == 0 && S_ISFIFO(log.st_mode)) {
    // The pipe of `start_daemon`, which reads it no more then.
    const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    dup2(null.get(), STDERR_FILENO);
  }
  say({0, ""});
  pipe_.reset();
  tell_systemd();
}

bool Readiness::fail(const Error& error) {
  const bool is_told = say(error);
  // This process's end closes it. Who waits may start another one then: until then this one has its
  // name and its ports.
  static_cast<void>(pipe_.release());
  return is_told;
}

bool Readiness::say(const Error& error) const {
  const std::string text = fmt::format("{} {}", error.code, error.text);
  return write(pipe_.get(), text.data(), text.size()) > 0;
}

Result<void> wait_until_ready(int pipe, const std::string& program, TimeNs patience) {
  const TimeNs deadline = monotonic_now() + patience;
  std::string text;
  for (;;) {
    const TimeNs left = elapsed(monotonic_now(), deadline);
    pollfd waiting{pipe, POLLIN, 0};
    const int found = poll(&waiting, 1, static_cast<int>(left / kMillisecond));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) {
      return refuse(ETIMEDOUT,
                    fmt::format("{} is not ready after {} s", program, patience / kSecond));
    }
    std::array<char, 512> part;
    const auto got = read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) {
    return refuse(ECHILD, fmt::format("{} has ended before it served", program));
  }
  const int code = std::atoi(text.c_str());
  if (code == 0) return {};
  return refuse(code, text.substr(blank + 1));
}

Result<void> log_into(const std::string& file) {
  const UniqueFd log(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return refuse_errno(file);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  show_times_in_log();
  return {};
}

}  // namespace verbatim::service

// rpoll and rselect, for rsockets together with other descriptors.
#include <algorithm>
#include <cerrno>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <sys/select.h>

#include "base/cancellation/cancellation_point.h"
#include "ulp/rsocket/rsocket.h"
#include "ulp/rsocket/socket.h"

namespace verbatim::rsocket {
namespace {

/// Another thread may have taken the event that would wake this one.
constexpr TimeNs kLongestWait = 100 * kMillisecond;

struct Waiting {
  std::span<pollfd> fds;
  std::vector<std::shared_ptr<Socket>> sockets;  // Null for other descriptors.
  std::vector<pollfd> real;
  bool all_rsockets = true;
};

/// Returns the number of ready descriptors without waiting; -1 as poll(2).
int check(Waiting& waiting) {
  int count = 0;
  if (!waiting.all_rsockets) {
    for (std::size_t i = 0; i < waiting.fds.size(); ++i) {
      waiting.real[i] = waiting.fds[i];
      if (waiting.sockets[i]) waiting.real[i].fd = -1;
    }
    if (::poll(waiting.real.data(), waiting.real.size(), 0) < 0) return -1;
  }
  for (std::size_t i = 0; i < waiting.fds.size(); ++i) {
    pollfd& fd = waiting.fds[i];
    fd.revents = waiting.sockets[i]     ? waiting.sockets[i]->ready(fd.events)
                 : waiting.all_rsockets ? short{0}
                                        : waiting.real[i].revents;
    count += fd.revents != 0;
  }
  return count;
}

/// As `check`, after which each event of a socket will be seen at its handle.
int arm(Waiting& waiting) {
  bool any = false;
  for (const auto& socket : waiting.sockets) {
    if (!socket) continue;
    socket->arm();
    any = true;
  }
  return any ? check(waiting) : 0;
}

/// Waits until something may have happened.
int wait(Waiting& waiting, TimeNs longest) {
  for (std::size_t i = 0; i < waiting.fds.size(); ++i) {
    waiting.real[i] = waiting.fds[i];
    if (waiting.sockets[i]) waiting.real[i].events = POLLIN;
  }
  const auto longest_ms = static_cast<int>((longest + kMillisecond - 1) / kMillisecond);
  const int count = cancellable_poll(waiting.real.data(), waiting.real.size(), longest_ms);
  for (std::size_t i = 0; count > 0 && i < waiting.fds.size(); ++i) {
    if (waiting.sockets[i] && waiting.real[i].revents != 0) waiting.sockets[i]->wake();
  }
  return count;
}

int poll_all(std::span<pollfd> fds, int timeout_ms) {
  Waiting waiting{.fds = fds};
  waiting.sockets.reserve(fds.size());
  for (const pollfd& fd : fds) {
    waiting.sockets.push_back(fd.fd < 0 ? nullptr : find(fd.fd));
    if (!waiting.sockets.back()) waiting.all_rsockets = false;
  }
  waiting.real.resize(fds.size());
  const TimeNs begin = monotonic_now();
  int yields = kYields;
  const TimeNs end = timeout_ms < 0 ? kNever : begin + TimeNs(timeout_ms) * kMillisecond;
  for (;;) {
    if (const int count = check(waiting); count != 0) return count;
    const TimeNs now = monotonic_now();
    if (now >= end) return 0;
    const bool may_be_quick = std::ranges::any_of(
        waiting.sockets, [](const auto& socket) { return socket && socket->may_be_quick(); });
    if (may_be_quick && now < begin + kSpin) continue;
    if (may_be_quick && yields > 0) {
      --yields;
      sched_yield();
      continue;
    }
    if (const int count = arm(waiting); count != 0) return count;
    const auto is_armed = [](const auto& socket) { return !socket || socket->armed(); };
    if (!std::ranges::all_of(waiting.sockets, is_armed))
      continue;  // An event has arrived meanwhile.
    if (wait(waiting, std::min(end - now, kLongestWait)) < 0) return -1;
  }
}

}  // namespace
}  // namespace verbatim::rsocket

extern "C" {

int rpoll(pollfd* fds, nfds_t nfds, int timeout) {
  return verbatim::rsocket::poll_all({fds, nfds}, timeout);
}

int rselect(int nfds, fd_set* readfds, fd_set* writefds, fd_set* exceptfds, timeval* timeout) {
  const auto wants = [](int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); };
  std::vector<pollfd> fds;
  for (int fd = 0; fd < nfds; ++fd) {
    short events = 0;
    if (wants(fd, readfds)) events |= POLLIN;
    if (wants(fd, writefds)) events |= POLLOUT;
    if (wants(fd, exceptfds)) events |= POLLPRI;
    if (events != 0) fds.push_back({.fd = fd, .events = events, .revents = 0});
  }
  const int milliseconds =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
  const int ready = verbatim::rsocket::poll_all(fds, milliseconds);
  if (ready < 0) return -1;
  for (fd_set* set : {readfds, writefds, exceptfds}) {
    if (set != nullptr) FD_ZERO(set);
  }
  int count = 0;
  const auto mark = [&count](const pollfd& fd, short asked, short seen, fd_set* set) {
    if (set == nullptr || (fd.events & asked) == 0 || (fd.revents & seen) == 0) return;
    FD_SET(fd.fd, set);
    ++count;
  };
  for (const pollfd& fd : fds) {
    if ((fd.revents & POLLNVAL) != 0) {
      errno = EBADF;
      return -1;
    }
    mark(fd, POLLIN, POLLIN | POLLHUP | POLLERR, readfds);
    mark(fd, POLLOUT, POLLOUT | POLLERR, writefds);
    mark(fd, POLLPRI, POLLPRI, exceptfds);
  }
  return count;
}

}  // extern "C"

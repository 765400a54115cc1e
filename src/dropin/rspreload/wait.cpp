// poll and select with rsockets among the descriptors.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/select.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/inherited.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/pending/pending.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

/// The implementation that serves a set of descriptors: the last of these that one of them needs.
enum class Way : std::uint8_t { libc, rsockets, pending };

Way way_of(int fd) {
  const Kind kind = kind_of(fd);
  return kind == Kind::rsocket ? Way::rsockets : is_pending(kind) ? Way::pending : Way::libc;
}

Way way_of(const pollfd* fds, nfds_t count) {
  Way way = Way::libc;
  for (nfds_t i = 0; i < count; ++i) way = std::max(way, way_of(fds[i].fd));
  return way;
}

Way way_of(int count, const fd_set* a, const fd_set* b, const fd_set* c) {
  Way way = Way::libc;
  for (int fd = 0; fd < count; ++fd) {
    for (const fd_set* set : {a, b, c}) {
      if (set != nullptr && FD_ISSET(fd, set)) way = std::max(way, way_of(fd));
    }
  }
  return way;
}

/// Some rsocket has become a shadow (heirs/) meanwhile: the number is the kernel's now.
bool has_stale(const pollfd* fds, nfds_t count) {
  return std::any_of(fds, fds + count, [](const pollfd& fd) {
    return fd.revents == POLLNVAL && kind_of(fd.fd) == Kind::other &&
           within([&] { return fcntl(fd.fd, F_GETFD); }) >= 0;
  });
}

/// The sets that select was given.
class Asked {
 public:
  explicit Asked(std::array<fd_set*, 3> given) : given_(given) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] != nullptr) sets_[i] = *given[i];
    }
  }
  void restore() {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (given_[i] != nullptr) *given_[i] = sets_[i];
    }
  }
  bool are_open(int count) const {
    const Inside mark;
    for (int fd = 0; fd < count; ++fd) {
      for (std::size_t i = 0; i < given_.size(); ++i) {
        const bool is_in = given_[i] != nullptr && FD_ISSET(fd, &sets_[i]);
        if (is_in && fcntl(fd, F_GETFD) < 0) return false;
      }
    }
    return true;
  }

 private:
  std::array<fd_set*, 3> given_;
  std::array<fd_set, 3> sets_{};
};

/// poll with pending sockets, which become rsockets as soon as their peers are ready.
int poll_pending(pollfd* fds, nfds_t count, int timeout_ms) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::vector<pollfd> all;
  for (;;) {
    all.assign(fds, fds + count);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now());
    int limit = timeout_ms < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    for (nfds_t i = 0; i < count; ++i) {
      // TCP tells whether it is connected, the rsocket whether it can be used.
      if (kind_of(fds[i].fd) == Kind::connecting || advance(fds[i].fd)) continue;
      all[i].fd = -1;
      const int longest = watch(fds[i].fd, all);
      limit = limit < 0 ? longest : std::min(limit, longest);
    }
    if (within([&] { return rpoll(all.data(), all.size(), limit); }) < 0) return -1;
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      fds[i].revents = all[i].fd < 0 ? short{0} : all[i].revents;
      if (fds[i].revents == 0) continue;
      ++ready;
      const bool connects = kind_of(fds[i].fd) == Kind::connecting;
      if (connects && fds[i].revents != POLLIN) become_active(fds[i].fd);
    }
    if (ready > 0 || (timeout_ms >= 0 && steady_clock::now() >= end)) return ready;
  }
}

/// The same for select.
int select_pending(int count, fd_set* read, fd_set* write, fd_set* except, const timeval* timeout) {
  std::vector<pollfd> fds;
  for (int fd = 0; fd < count; ++fd) {
    short events = 0;
    if (read != nullptr && FD_ISSET(fd, read)) events |= POLLIN;
    if (write != nullptr && FD_ISSET(fd, write)) events |= POLLOUT;
    if (except != nullptr && FD_ISSET(fd, except)) events |= POLLPRI;
    if (events != 0) fds.push_back({.fd = fd, .events = events, .revents = 0});
  }
  const int milliseconds =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
  if (poll_pending(fds.data(), fds.size(), milliseconds) < 0) return -1;
  int ready = 0;
  const auto keep = [&ready](const pollfd& fd, fd_set* set, short events) {
    if (set == nullptr || !FD_ISSET(fd.fd, set)) return;
    if ((fd.revents & events) != 0) {
      ++ready;
    } else {
      FD_CLR(fd.fd, set);
    }
  };
  for (const pollfd& fd : fds) {
    keep(fd, read, POLLIN | POLLHUP | POLLERR);
    keep(fd, write, POLLOUT | POLLERR);
    keep(fd, except, POLLPRI);
  }
  return ready;
}

/// Sets the caller's signal mask during the wait. A signal between setting it and waiting may be
/// missed; rsockets wait 100 ms at most.
class Mask {
 public:
  explicit Mask(const sigset_t* mask) : is_set_(mask != nullptr) {
    if (is_set_) pthread_sigmask(SIG_SETMASK, mask, &before_);
  }
  ~Mask() {
    if (is_set_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Mask(const Mask&) = delete;

 private:
  bool is_set_;
  sigset_t before_{};
};

}  // namespace

extern "C" {

EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  static auto* const plain = VERBATIM_NEXT(poll);
  const Way way = way_of(fds, count);
  if (way == Way::libc) return plain(fds, count, timeout);
  if (way == Way::pending) return poll_pending(fds, count, timeout);
  const int ready = within([&] { return rpoll(fds, count, timeout); });
  return ready > 0 && has_stale(fds, count) ? poll(fds, count, timeout) : ready;
}

EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(ppoll);
  if (way_of(fds, count) == Way::libc) return plain(fds, count, timeout, signals);
  const int milliseconds =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000);
  const Mask mask(signals);
  return poll(fds, count, milliseconds);
}

EXPORT int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  static auto* const plain = VERBATIM_NEXT(select);
  const Way way = way_of(count, read, write, except);
  if (way == Way::libc) return plain(count, read, write, except, timeout);
  if (way == Way::pending) return select_pending(count, read, write, except, timeout);
  Asked asked({read, write, except});
  const int ready = within([&] { return rselect(count, read, write, except, timeout); });
  if (ready >= 0 || errno != EBADF || !asked.are_open(count)) return ready;
  asked.restore();  // As in poll.
  return select(count, read, write, except, timeout);
}

EXPORT int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
                   const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(pselect);
  if (way_of(count, read, write, except) == Way::libc) {
    return plain(count, read, write, except, timeout, signals);
  }
  timeval limit{};
  if (timeout != nullptr) limit = {timeout->tv_sec, (timeout->tv_nsec + 999) / 1000};
  const Mask mask(signals);
  return select(count, read, write, except, timeout == nullptr ? nullptr : &limit);
}

}  // extern "C"

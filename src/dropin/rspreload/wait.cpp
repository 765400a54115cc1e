// poll and select, where rsockets are among the descriptors.
#include <initializer_list>

#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/select.h>

#include "dropin/rspreload/next.h"
#include "dropin/rspreload/numbers.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

bool any_ours(const pollfd* fds, nfds_t count) {
  for (nfds_t i = 0; i < count; ++i) {
    if (is_ours(fds[i].fd)) return true;
  }
  return false;
}

bool any_ours(int count, const fd_set* a, const fd_set* b, const fd_set* c) {
  for (int fd = 0; fd < count; ++fd) {
    for (const fd_set* set : {a, b, c}) {
      if (set != nullptr && FD_ISSET(fd, set) && is_ours(fd)) return true;
    }
  }
  return false;
}

/// The caller's signal mask for as long as it waits. Between setting it and waiting a signal may
/// slip through; rsockets wait 100 ms at most.
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
  if (!any_ours(fds, count)) return plain(fds, count, timeout);
  const Inside mark;
  return rpoll(fds, count, timeout);
}

EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t) {
  return poll(fds, count, timeout);
}

EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(ppoll);
  if (!any_ours(fds, count)) return plain(fds, count, timeout, signals);
  const int milliseconds =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000);
  const Mask mask(signals);
  const Inside mark;
  return rpoll(fds, count, milliseconds);
}

EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* signals,
                       size_t) {
  return ppoll(fds, count, timeout, signals);
}

EXPORT int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  static auto* const plain = VERBATIM_NEXT(select);
  if (!any_ours(count, read, write, except)) return plain(count, read, write, except, timeout);
  const Inside mark;
  return rselect(count, read, write, except, timeout);
}

EXPORT int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
                   const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(pselect);
  if (!any_ours(count, read, write, except)) {
    return plain(count, read, write, except, timeout, signals);
  }
  timeval limit{};
  if (timeout != nullptr) limit = {timeout->tv_sec, (timeout->tv_nsec + 999) / 1000};
  const Mask mask(signals);
  const Inside mark;
  return rselect(count, read, write, except, timeout == nullptr ? nullptr : &limit);
}

}  // extern "C"

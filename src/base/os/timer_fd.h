#pragma once

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim {

/// A timerfd: readable from a given time on. Wakes a thread that sleeps in poll(2). Not
/// thread-safe.
class TimerFd {
 public:
  TimerFd() = default;
  /// Fails with EMFILE, ENFILE or ENOMEM.
  static Result<TimerFd> create();

  int fd() const { return fd_.get(); }
  /// Returns the time at which it expires; kNever: it is not armed, or has been cleared.
  TimeNs at() const { return at_; }
  void set(TimeNs at);
  /// Makes it unreadable after it has expired.
  void clear();

 private:
  explicit TimerFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  TimeNs at_ = kNever;
};

}  // namespace verbatim

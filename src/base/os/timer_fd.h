#pragma once

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim {

/// A descriptor that is readable from a time on (timerfd_create(2)): what a thread that sleeps in
/// poll(2) is woken by. Its users order their calls.
class TimerFd {
 public:
  TimerFd() = default;
  /// EMFILE, ENFILE, ENOMEM.
  static Result<TimerFd> create();

  int fd() const { return fd_.get(); }
  /// When it rings; kNever: it does not, or has rung.
  TimeNs at() const { return at_; }
  void set(TimeNs at);
  /// It has rung, and is readable no more.
  void clear();

 private:
  explicit TimerFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  TimeNs at_ = kNever;
};

}  // namespace verbatim

#pragma once

#include "base/error.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace verbatim {

/// A descriptor that is readable from a time on (timerfd_create(2)): what a thread that sleeps in
/// poll(2) is woken by. Its users order their calls.
class Alarm {
 public:
  Alarm() = default;
  /// EMFILE, ENFILE, ENOMEM.
  static Result<Alarm> create();

  int fd() const { return fd_.get(); }
  /// When it rings; kNever: it does not, or has rung.
  TimeNs at() const { return at_; }
  void set(TimeNs at);
  /// It has rung, and is readable no more.
  void clear();

 private:
  explicit Alarm(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  TimeNs at_ = kNever;
};

}  // namespace verbatim

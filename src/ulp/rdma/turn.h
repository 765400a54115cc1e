#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbatim::ulp::rdma {

/// Whether the one thread of a process polls or sleeps. Pure, so that tests have time in hand.
///
///     each turn: at most `kPollsPerLook` polls, then descriptors (the loop's epoll_wait)
///     found something within `spin` -> poll again
///     else                          -> arm; poll once more; sleep until the first deadline
///
/// A sleep costs some six system calls, so it pays only if nothing comes for a while.
class Turn {
 public:
  static constexpr std::uint32_t kPollsPerLook = 64;
  static constexpr TimeNs kDefaultSpin = 50 * kMicrosecond;
  enum class Next : std::uint8_t { poll, arm_and_sleep };

  /// `spin`: 0 sleeps at once, kNever polls for ever.
  explicit Turn(TimeNs spin = kDefaultSpin) : spin_(spin) {}

  Next after(bool found_something, TimeNs now) {
    if (found_something) last_found_ = now;
    if (found_something || spin_ == kNever || elapsed(last_found_, now) < spin_) return Next::poll;
    return Next::arm_and_sleep;
  }
  /// It has armed, looked again, and found nothing.
  void sleep() { is_asleep_ = true; }
  /// Something has come, or was posted.
  void wake(TimeNs now) {
    if (is_asleep_) last_found_ = now;
    is_asleep_ = false;
  }
  bool is_asleep() const { return is_asleep_; }

 private:
  TimeNs spin_;
  TimeNs last_found_ = 0;
  bool is_asleep_ = false;
};

}  // namespace verbatim::ulp::rdma

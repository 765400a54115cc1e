#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

namespace verbatim {

/// A lock for critical sections of some tens of nanoseconds, four bytes, fit for shared memory. It
/// names its owner (the process id) so that a waiter can tell a dead owner from a slow one. A
/// waiter yields its processor after a short spin: two threads may share one core.
///
/// Acquire on taking it, release on letting it go: what the section wrote is seen by the next
/// owner.
class SpinLock {
 public:
  bool try_lock(std::uint32_t owner = 1) {
    std::uint32_t expected = 0;
    return owner_.compare_exchange_strong(expected, owner, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void lock() {
    for (unsigned spins = 1; !try_lock(); ++spins) {
      if (spins % 64 == 0) {
        sched_yield();
      } else {
        __builtin_ia32_pause();
      }
    }
  }
  void unlock() { owner_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> owner_{0};
};

}  // namespace verbatim

#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include <sched.h>

#include "base/always_inline.h"
#include "base/os/process_token.h"
#include "base/processor.h"

namespace verbatim {

/// A lock for critical sections of some tens of nanoseconds, four bytes, fit for shared memory. It
/// names the process that owns it: a waiter that waits for long looks whether the owner lives, and
/// takes over from a dead one. What the section guards must be consistent at any instruction. A
/// waiter yields its processor after a short spin: two threads may share one core.
///
/// Acquire on taking it, release on letting it go: what the section wrote is seen by the next
/// owner. Taking it and looking whether it is taken are sequentially consistent, for those who wait
/// until each lock of a kind was free once.
class SpinLock {
 public:
  VERBATIM_ALWAYS_INLINE bool try_lock() {
    ProcessToken expected = 0;
    return owner_.compare_exchange_strong(expected, own_process_token(), std::memory_order_seq_cst,
                                          std::memory_order_relaxed);
  }
  VERBATIM_ALWAYS_INLINE void lock() {
    if (!try_lock()) lock_after_waiting();
  }
  void unlock() { owner_.store(0, std::memory_order_release); }
  bool is_locked() const { return owner_.load(std::memory_order_seq_cst) != 0; }
  /// What a waiter does in its loop, for the `spins`th time from 1.
  void wait(unsigned spins) {
    if (spins % kSpinsBeforeYield != 0) {
      relax_processor();
      return;
    }
    sched_yield();
    // A yield may take a time slice of somebody else's: the first looks are not far apart.
    const unsigned yields = spins / kSpinsBeforeYield;
    const bool looks = yields % kYieldsPerLook == 0 ||
                       (yields >= kYieldsBeforeLook && std::has_single_bit(yields));
    if (!looks) return;
    ProcessToken owner = owner_.load(std::memory_order_relaxed);
    // Its lock is opened, and whoever is first has it.
    if (owner != 0 && !process_lives(owner)) {
      owner_.compare_exchange_strong(owner, 0, std::memory_order_acq_rel);
    }
  }

 private:
  [[gnu::noinline]] void lock_after_waiting() {
    for (unsigned spins = 1; !try_lock(); ++spins) wait(spins);
  }

  static constexpr unsigned kSpinsBeforeYield = 64;
  static constexpr unsigned kYieldsBeforeLook = 4;
  static constexpr unsigned kYieldsPerLook = 256;  // A millisecond or so.

  std::atomic<ProcessToken> owner_{0};
};

}  // namespace verbatim

#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include <sched.h>

#include "base/always_inline.h"
#include "base/os/process_token.h"
#include "base/processor.h"

namespace verbatim {

/// Spin lock for critical sections of some tens of nanoseconds; 4 bytes, usable in shared memory.
/// It stores the owner's process: a waiter checks now and then that this process lives, and takes
/// the lock over if not. So the data must be consistent at every instruction of the section. After
/// a short spin a waiter yields its CPU, because two threads may share one core.
///
/// Acquire on lock, release on unlock. Taking the lock and reading whether it is taken are
/// sequentially consistent, for threads that wait until each lock of a set has been free once.
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
  /// One step of a waiter's loop; `spins` counts the steps from 1.
  void wait(unsigned spins) {
    if (spins % kSpinsBeforeYield != 0) {
      relax_processor();
      return;
    }
    sched_yield();
    // A yield may take a whole time slice of another thread, so the first checks come soon.
    const unsigned yields = spins / kSpinsBeforeYield;
    const bool looks = yields % kYieldsPerLook == 0 ||
                       (yields >= kYieldsBeforeLook && std::has_single_bit(yields));
    if (!looks) return;
    ProcessToken owner = owner_.load(std::memory_order_relaxed);
    // The owner is dead: opens its lock; the first waiter takes it.
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
  static constexpr unsigned kYieldsPerLook = 256;  // About a millisecond.

  std::atomic<ProcessToken> owner_{0};
};

}  // namespace verbatim

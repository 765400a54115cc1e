#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

#include "base/time.h"

namespace verbatim::region {

/// Copies within this process by process_vm_writev(2) and process_vm_readv(2), any thread's: the
/// kernel writes to pages that it has looked up before, which no write-protection stops, or fails
/// at those that are frozen. So while pages move there are none.
///
/// Who copies counts itself and then looks for a move; who moves says so and then looks at the
/// count. All four accesses are sequentially consistent: at least one sees the other.
class KernelCopies {
 public:
  /// As long as it lives, no page of this process moves.
  class Copy {
   public:
    Copy() {
      for (count_.fetch_add(1); moves_.load(); count_.fetch_add(1)) {
        count_.fetch_sub(1);
        while (moves_.load()) sched_yield();
      }
    }
    ~Copy() { count_.fetch_sub(1); }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;
  };

  /// One thread at a time. Returns false if copies have not ended by then. `end_move` follows in
  /// either case.
  static bool begin_move(TimeNs deadline) {
    moves_.store(true);
    while (count_.load() != 0) {
      if (monotonic_now() >= deadline) return false;
      sched_yield();
    }
    return true;
  }
  static void end_move() { moves_.store(false); }
  /// In a forked child: the other threads are not there.
  static void forget() { count_.store(0); }

 private:
  static inline std::atomic<std::uint32_t> count_{0};
  static inline std::atomic<bool> moves_{false};
};

}  // namespace verbatim::region

#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

#include "base/time.h"

namespace verbatim::region {

/// Copies that any thread makes within this process by process_vm_writev(2) or process_vm_readv(2).
/// The kernel writes to pages that it has looked up before, and nothing stops that: so there are
/// none while pages move. The same for what the background thread does outside of passes.
///
/// A copier counts itself and then looks for a move; a mover says that it moves and then looks at
/// the count. All four accesses are sequentially consistent: at least one side sees the other.
class KernelCopies {
 public:
  /// While it exists, no page of this process moves.
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

  /// For one thread at a time. Returns false if copies have not ended by the deadline. `end_move`
  /// follows in either case.
  static bool begin_move(TimeNs deadline) {
    moves_.store(true);
    while (count_.load() != 0) {
      if (monotonic_now() >= deadline) return false;
      sched_yield();
    }
    return true;
  }
  static void end_move() { moves_.store(false); }
  /// Called in a forked child, in which other threads do not exist.
  static void forget() {
    count_.store(0);
    moves_.store(false);
  }

 private:
  static inline std::atomic<std::uint32_t> count_{0};
  static inline std::atomic<bool> moves_{false};
};

}  // namespace verbatim::region

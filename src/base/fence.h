#pragma once

#include <atomic>

namespace verbatim {

/// All that this thread has read and written before comes before all that it reads and writes
/// after.
inline void full_fence() {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer knows no fences; it orders an exchange as strongly.
  static std::atomic<int> word{0};
  word.exchange(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// All that this thread has written before comes before what it writes after.
inline void release_fence() {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace verbatim

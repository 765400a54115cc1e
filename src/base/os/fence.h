#pragma once

#include <atomic>
#include <cstdint>

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

/// A look at a word of memory that may have been given to somebody else meanwhile: a hint, to be
/// looked at again under a lock. ThreadSanitizer is not asked.
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"), noinline))
#endif
inline std::uint32_t
racy_load(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace verbatim

#pragma once

#include <atomic>
#include <cstdint>

namespace verbatim {

/// A full memory barrier: this thread's reads and writes before it come before those after it.
inline void full_fence() {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer does not know fences; an exchange orders as strongly.
  static std::atomic<int> word{0};
  word.exchange(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// A write barrier: this thread's writes before it come before its writes after it.
inline void release_fence() {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Acquire load of a word whose memory may have been freed or reused: a hint, to be checked again
/// under a lock. Excluded from ThreadSanitizer.
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"), noinline))
#endif
inline std::uint32_t
racy_load(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace verbatim

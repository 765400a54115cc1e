#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <linux/futex.h>
#include <pthread.h>

namespace verbatim {

/// Tells other processes whether a thread has ended, however it ended: a robust, process-shared
/// mutex that the thread holds all its life (set_robust_list(2)). The kernel marks it before a
/// parent can reap the process.
class Liveness {
 public:
  Liveness() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  /// Called once, by the thread to be watched.
  void begin() { pthread_mutex_lock(&mutex_); }
  /// Called by the same thread before it goes on without the word, or before the memory is
  /// unmapped.
  void end() { pthread_mutex_unlock(&mutex_); }
  /// Returns true if the thread has begun and ended. One load; for any process.
  bool has_ended() const {
    // The futex word is the first field of glibc's mutex.
    static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
    return (__atomic_load_n(&mutex_.__data.__lock, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED) != 0;
  }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace verbatim

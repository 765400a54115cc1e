#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <linux/futex.h>
#include <pthread.h>

namespace verbatim {

/// A word of shared memory in which the kernel itself notes that a thread has ended, however it
/// ended, before anybody can have waited for its process: a robust mutex that the thread holds as
/// long as it lives (set_robust_list(2)).
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
  /// By the thread whose life it shows; once.
  void begin() { pthread_mutex_lock(&mutex_); }
  /// Whether it has begun and ended. One load; any process.
  bool has_ended() const {
    // The futex word is the first of glibc's mutex: its type says so.
    static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
    return (__atomic_load_n(&mutex_.__data.__lock, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED) != 0;
  }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace verbatim

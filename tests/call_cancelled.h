#pragma once

#include <functional>

#include <gtest/gtest.h>
#include <pthread.h>

namespace cancellation {

/// Sanitizers replace the functions that ours would (src/dropin/cancellation).
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

enum class End { after_the_call, inside };

/// Runs `call` in a thread that is already cancelled, so the first cancellation point ends it.
inline End call_cancelled(const std::function<void()>& call) {
  struct Job {
    const std::function<void()>& call;
    bool has_returned = false;
  } job{call};
  const auto body = [](void* argument) -> void* {
    auto& own = *static_cast<Job*>(argument);
    pthread_cancel(pthread_self());
    own.call();
    own.has_returned = true;
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread{};
  EXPECT_EQ(pthread_create(&thread, nullptr, body, &job), 0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  return job.has_returned ? End::after_the_call : End::inside;
}

}  // namespace cancellation

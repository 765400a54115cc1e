#pragma once

#include <atomic>

namespace verbatim::adapter {

/// A program of ours may attend to its packets itself: one thread polls as long as something comes;
/// then it calls `Progress::serve_events`, polls all its queues once more, and sleeps until
/// `Progress::attend`'s descriptor is readable, or one of an event channel. So a packet wakes one
/// thread instead of two. The background thread serves timers and what the agent says.
class Attention {
 public:
  /// The calling thread attends from now on.
  void begin() {
    is_here_ = true;
    is_given_.store(true, std::memory_order_release);
  }
  /// The background thread does again, until the next `begin`.
  void end() { is_given_.store(false, std::memory_order_release); }
  bool is_given() const { return is_given_.load(std::memory_order_acquire); }
  /// Completions that the calling thread's own calls have brought need no event: it will poll.
  bool is_here() const { return is_here_ && is_given(); }

 private:
  std::atomic<bool> is_given_{false};
  // Of a thread, and a thread attends to one program. This TLS model saves a function call.
  [[gnu::tls_model("initial-exec")]] static inline thread_local bool is_here_ = false;
};

}  // namespace verbatim::adapter

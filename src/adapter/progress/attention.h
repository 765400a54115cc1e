#pragma once

#include <atomic>

namespace verbatim::adapter {

/// A program of ours may attend to its packets itself: one thread polls as long as something comes;
/// then it calls `Progress::serve_events`, polls all its queues once more, and sleeps until the
/// descriptor is readable, or one of an event channel. So a packet wakes one thread instead of two.
/// The background thread serves timers and what the agent says.
///
/// Of the process, which has one adapter.
class Attention {
 public:
  /// The calling thread attends from now on. Returns the descriptor; -1: there is no adapter.
  static int begin() {
    is_here_ = true;
    is_given_.store(true, std::memory_order_release);
    return descriptor_.load(std::memory_order_acquire);
  }
  /// The background thread does again, until the next `begin`.
  static void end() { is_given_.store(false, std::memory_order_release); }
  static bool is_given() { return is_given_.load(std::memory_order_acquire); }
  /// Completions that the calling thread's own calls have brought need no event: it will poll.
  static bool is_here() { return is_here_ && is_given(); }
  /// Becomes readable when something comes.
  static void set_descriptor(int fd) {
    end();
    descriptor_.store(fd, std::memory_order_release);
  }

 private:
  static inline std::atomic<bool> is_given_{false};
  static inline std::atomic<int> descriptor_{-1};
  static inline thread_local bool is_here_ = false;
};

}  // namespace verbatim::adapter

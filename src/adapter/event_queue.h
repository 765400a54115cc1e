#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace verbatim::adapter {

/// The pollable descriptor behind a completion channel or a context's asynchronous events: an eventfd that counts like a
/// semaphore. The program may set O_NONBLOCK on it, poll it or hand it to an event loop.
class Semaphore {
 public:
  static Result<Semaphore> create();
  Semaphore(Semaphore&& other) noexcept;
  Semaphore& operator=(Semaphore&& other) noexcept;
  ~Semaphore();
  int fd() const { return fd_; }
  void post();
  /// Takes one; waits unless the descriptor is non-blocking. EAGAIN, EINTR.
  Result<void> wait();
  /// Takes one if there is one; never waits, whatever the descriptor's flags.
  bool try_take();

 private:
  explicit Semaphore(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// Events of type `T` in order, each with one unit of the semaphore. Any thread.
template <typename T>
class EventQueue {
 public:
  explicit EventQueue(Semaphore semaphore) : semaphore_(std::move(semaphore)) {}
  int fd() const { return semaphore_.fd(); }

  void push(T event) {
    {
      const std::lock_guard guard(lock_);
      events_.push_back(event);
    }
    semaphore_.post();
  }

  /// The oldest event. EAGAIN where the descriptor is non-blocking and there is none.
  Result<T> wait() {
    for (;;) {
      if (auto taken = semaphore_.wait(); !taken) return std::unexpected(taken.error());
      const std::lock_guard guard(lock_);
      if (events_.empty()) continue;  // `remove_if` was faster.
      T event = events_.front();
      events_.pop_front();
      return event;
    }
  }

  /// Drops events that nobody took; returns how many.
  template <typename Predicate>
  std::size_t remove_if(Predicate predicate) {
    const std::lock_guard guard(lock_);
    const std::size_t removed = std::erase_if(events_, predicate);
    for (std::size_t i = 0; i < removed; ++i) semaphore_.try_take();
    return removed;
  }

 private:
  Semaphore semaphore_;
  std::mutex lock_;
  std::deque<T> events_;
};

}  // namespace verbatim::adapter

#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::adapter {

/// The pollable descriptor of a completion channel or of a context's asynchronous events: an
/// eventfd that counts like a semaphore. The program may set O_NONBLOCK on it, poll it or pass it
/// to an event loop.
class Semaphore {
 public:
  /// `without_nowait`: behaves as on kernels before 5.8 and in sandboxes, which have no RWF_NOWAIT
  /// for eventfds. Otherwise detected; for tests. EMFILE, ENFILE.
  static Result<Semaphore> create(bool without_nowait = false);
  Semaphore(Semaphore&& other) noexcept;
  Semaphore& operator=(Semaphore&& other) noexcept;
  int fd() const { return fd_.get(); }
  void post();
  /// Takes one; waits unless the descriptor is non-blocking. EAGAIN, EINTR. A cancellation point.
  Result<void> wait();
  /// Takes one if there is one; never waits, whatever the descriptor's flags are.
  bool try_take();

 private:
  Semaphore(UniqueFd fd, bool nowait) : fd_(std::move(fd)), nowait_(nowait) {}
  Result<void> wait_polling();

  UniqueFd fd_;
  bool nowait_ = true;  // The kernel supports RWF_NOWAIT for this descriptor.
  std::mutex reading_;  // Without RWF_NOWAIT: held between check and read. Its address is stable.
};

/// Events of type `T` in order, each with one unit of the semaphore. Any thread.
template <typename T>
class EventQueue {
 public:
  explicit EventQueue(Semaphore semaphore) : semaphore_(std::move(semaphore)) {}
  int fd() const { return semaphore_.fd(); }

  void push(T event) {
    const std::lock_guard guard(lock_);
    events_.push_back(event);
    semaphore_.post();  // First, because a thread that removes the event also takes its unit.
  }

  /// Returns the oldest event. EAGAIN if there is none and the descriptor is non-blocking.
  /// `on_taken(event)` is called under the queue's lock: for `remove_if`, an event is either still
  /// in the queue or counted as delivered.
  template <typename OnTaken>
  Result<T> wait(OnTaken on_taken) {
    for (;;) {
      if (auto taken = semaphore_.wait(); !taken) return std::unexpected(taken.error());
      const std::lock_guard guard(lock_);
      if (events_.empty()) continue;  // `remove_if` was faster.
      T event = events_.front();
      events_.pop_front();
      on_taken(event);
      return event;
    }
  }
  Result<T> wait() {
    return wait([](const T&) {});
  }

  /// Drops events that the program has not taken; returns their number.
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

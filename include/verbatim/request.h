#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>

#include <verbatim/completion.h>

namespace verbatim::inline v1 {

namespace detail {

struct Party;
struct Queue;
struct Ring;

class Timer;

/// A request that is being waited for. Exactly one pointer leads to it: that of its slot in the
/// queue pair's ring or, from its completion until its callback or coroutine is called, that of the
/// queue's list.
class Pending {
 public:
  Pending() noexcept { forget(); }
  Pending(Pending&& other) noexcept { take(other); }
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) leave(), take(other);
    return *this;
  }
  ~Pending() { leave(); }

  /// Returns true if the request has completed, or there is none.
  bool done() const noexcept { return status() != kWaiting; }

 protected:
  struct Unset {};
  explicit Pending(Unset) noexcept {}  // Set by `begin` or `fail`.
  friend struct Queue;
  friend struct Ring;
  friend struct Party;
  friend class Timer;
  using Resume = void (*)(Pending&);
  static constexpr Status kWaiting{0xff};

  /// The request continues without it.
  void leave() noexcept {
    if (!done() || link_ != nullptr) leave_slot();
  }
  void take(Pending& other) noexcept;
  Result<Completion> result() const;

  // If threads share the queue, another thread's poll may set it; it is set last.
  Status status() const noexcept {
    return std::atomic_ref(const_cast<Status&>(status_)).load(std::memory_order_acquire);
  }
  void set_status(Status status) noexcept {
    std::atomic_ref(status_).store(status, std::memory_order_release);
  }
  void fail(const Failure& failure) noexcept;
  bool call_when_done(Resume resume, void* continuation, Timer* timer = nullptr,
                      std::chrono::nanoseconds timeout = {}) noexcept;

  void forget() noexcept {
    link_ = nullptr;
    next_ = nullptr;
    resume_ = nullptr;
    status_ = Status::cancelled;
    operation_ = Operation::none;
  }
  void begin(Queue& queue, Pending*& slot, Operation operation, std::uint32_t queue_pair) noexcept {
    queue_ = &queue;
    link_ = &slot;
    next_ = nullptr;
    resume_ = nullptr;
    operation_ = operation;
    queue_pair_ = queue_pair;
    set_status(kWaiting);
  }
  void set_details(const ibv_wc& entry, std::uint32_t bytes) noexcept {
    bytes_ = bytes;
    if (operation_ == Operation::receive) {
      has_immediate_ = (entry.wc_flags & IBV_WC_WITH_IMM) != 0;
      immediate_ = entry.imm_data;
      source_queue_pair_ = entry.src_qp;
    }
    if (entry.status != IBV_WC_SUCCESS) [[unlikely]] {
      code_ = entry.status;
      vendor_error_ = entry.vendor_err;
      detail_ = "";
    }
  }
  void leave_slot() noexcept;
  void unlink() noexcept;
  void copy(Pending& other) noexcept;

  Queue* queue_;        // The queue to poll.
  Pending** link_;      // The pointer that leads here.
  Pending* next_;       // Next in the queue's list.
  Resume resume_;       // Called once by the queue, after a whole batch of completions.
  void* continuation_;  // Argument of `resume_`.
  Status status_;
  Operation operation_;
  std::uint8_t has_immediate_;  // This and the following are set by the completion.
  int code_;
  std::uint32_t queue_pair_;
  std::uint32_t bytes_;
  std::uint32_t immediate_;
  std::uint32_t source_queue_pair_;
  std::uint32_t vendor_error_;
  const char* detail_;
};

/// Resumes a coroutine when a time is over, unless the request that it awaits completes before. It
/// is in the queue's list meanwhile.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { stop(); }
  void stop() noexcept {
    if (link_ != nullptr) unlink();
  }

 private:
  friend struct Queue;
  friend class Pending;
  void unlink() noexcept;

  std::chrono::steady_clock::time_point end_;
  Pending* pending_ = nullptr;
  Timer* next_ = nullptr;
  Timer** link_ = nullptr;
};

}  // namespace detail

/// A posted request. If posting failed, `poll`, `wait` or `co_await` report that as the result of
/// the request.
///
///     qp.write(buffer.slice(0, 8), remote).wait().value();
///     RequestToken first = qp.read(...), second = qp.read(...);     // Both are under way.
///     if (Result<Completion> end = second.wait_for(10ms); !end) log(end.error().message());
///     Result<Completion> end = co_await qp.send(...);               // <verbatim/coroutine.h>
///
/// A token may be moved, and destroyed at any time: the request continues without it (for its
/// memory see `Buffer`). It belongs to the thread of its completion queue
/// (`CompletionQueueOptions`). It may outlive its queue pair: then it has failed with
/// `Status::cancelled`.
class [[nodiscard]] RequestToken : public detail::Pending {
 public:
  RequestToken() noexcept =
      default;  ///< Without a request: `poll` returns true, and the result is a failure.

  /// Polls once; returns true if the request has completed.
  bool poll();
  /// Waits without limit.
  Result<Completion> wait();
  /// Fails with `Status::timed_out` when the time is over; the token can be waited for again.
  Result<Completion> wait_for(std::chrono::nanoseconds timeout);
  /// Its result. Requires `done()`.
  using Pending::result;

  /// Resumes a coroutine inside the completion queue's `poll` or `wait`. Returns false if the
  /// request has completed meanwhile: then it is not resumed.
  bool resume_with(std::coroutine_handle<> waiting) noexcept {
    return call_when_done(resume, waiting.address());
  }
  /// The same, and also resumes it when the time is over; then the token has not completed.
  bool resume_with(std::coroutine_handle<> waiting, detail::Timer& timer,
                   std::chrono::nanoseconds timeout) noexcept {
    return call_when_done(resume, waiting.address(), &timer, timeout);
  }

  /// Calls `callback` with the result, inside the completion queue's `poll` or `wait`, exactly
  /// once, also if the queue pair is destroyed. Takes over from the token, which is not needed any
  /// more. Allocates.
  void then(std::function<void(const Result<Completion>&)> callback) &&;

 private:
  friend struct detail::Party;
  static void resume(Pending& token) {
    std::coroutine_handle<>::from_address(static_cast<RequestToken&>(token).continuation_).resume();
  }
  explicit RequestToken(Unset unset) noexcept : Pending(unset) {}
};

}  // namespace verbatim::inline v1

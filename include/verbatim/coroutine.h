#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include <verbatim/request.h>

/// Coroutines that await requests:
///
///     verbatim::Task<> put(QueuePair& qp, const Buffer& buffer, RemoteSlice to) {
///       (co_await qp.write(buffer.slice(), to)).value();
///       (co_await qp.send(buffer.slice(0, 8))).value();
///     }
///     run(qp.completions(), put(qp, buffer, remote));
///
/// A coroutine runs in the thread that polls its completion queue, inside `poll`, `wait` or `run`.
/// Destroying a task cancels it: the requests that it awaits continue, and the buffers that it
/// owned stay allocated until these have completed (`Buffer`).
namespace verbatim::inline v1 {

namespace detail {

class Awaiter {
 public:
  explicit Awaiter(RequestToken& token) noexcept : token_(token) {}
  bool await_ready() const noexcept { return token_.done(); }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    return token_.resume_with(waiting);
  }
  Result<Completion> await_resume() const { return token_.result(); }

 private:
  RequestToken& token_;
};

/// As `Awaiter`, with a time limit.
class TimedAwaiter {
 public:
  TimedAwaiter(RequestToken& token, std::chrono::nanoseconds timeout) noexcept
      : token_(token), timeout_(timeout) {}
  bool await_ready() const noexcept { return token_.done(); }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept {
    return token_.resume_with(waiting, timer_, timeout_);
  }
  Result<Completion> await_resume() {
    timer_.stop();
    return token_.result();
  }

 private:
  RequestToken& token_;
  const std::chrono::nanoseconds timeout_;
  Timer timer_;
};

template <typename T>
struct Returned {
  std::optional<T> value;
  template <typename U>
  void return_value(U&& returned) {
    value.emplace(std::forward<U>(returned));
  }
  T take() { return std::move(*value); }
};
template <>
struct Returned<void> {
  void return_void() noexcept {}
  void take() noexcept {}
};

}  // namespace detail

inline detail::Awaiter operator co_await(RequestToken& token) noexcept {
  return detail::Awaiter(token);
}
inline detail::Awaiter operator co_await(RequestToken&& token) noexcept {
  return detail::Awaiter(token);
}

/// Awaits with a time limit, then fails with `Status::timed_out`: the request continues, and a
/// named token may be awaited again. If the coroutine ends then, its buffers stay allocated until
/// the request has completed (`Buffer`). The queue's `poll` checks the time, and its `wait` returns
/// when it is over.
///
///     Result<Completion> end = co_await with_timeout(qp.receive(buffer.slice()), 10ms);
inline detail::TimedAwaiter with_timeout(RequestToken& token,
                                         std::chrono::nanoseconds timeout) noexcept {
  return detail::TimedAwaiter(token, timeout);
}
inline detail::TimedAwaiter with_timeout(RequestToken&& token,
                                         std::chrono::nanoseconds timeout) noexcept {
  return detail::TimedAwaiter(token, timeout);
}

/// A coroutine that has not begun: it begins when it is awaited, started or run. Owns the
/// coroutine; destroying it cancels it.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::Returned<T> {
    std::coroutine_handle<> awaiting = std::noop_coroutine();
    std::exception_ptr thrown;
    bool has_started = false;

    Task get_return_object() noexcept {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Continue {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().awaiting;
        }
        void await_resume() noexcept {}
      };
      return Continue{};
    }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
  };

  Task() = default;
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      cancel();
      coroutine_ = std::exchange(other.coroutine_, nullptr);
    }
    return *this;
  }
  ~Task() { cancel(); }

  /// Runs it until it awaits a request that has not completed. Polls of its completion queue resume
  /// it. A second call does nothing.
  void start() {
    if (coroutine_ && !std::exchange(coroutine_.promise().has_started, true)) coroutine_.resume();
  }
  bool done() const noexcept { return !coroutine_ || coroutine_.done(); }
  /// Returns its result, or throws its exception. Requires `done()`; may be called once.
  T result() {
    if (coroutine_.promise().thrown) std::rethrow_exception(coroutine_.promise().thrown);
    return coroutine_.promise().take();
  }
  void cancel() noexcept {
    if (coroutine_) std::exchange(coroutine_, nullptr).destroy();
  }

  auto operator co_await() && noexcept {
    struct Await {
      std::coroutine_handle<promise_type> awaited;
      bool await_ready() const noexcept { return !awaited || awaited.done(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
        awaited.promise().awaiting = awaiting;
        if (std::exchange(awaited.promise().has_started, true)) return std::noop_coroutine();
        return awaited;
      }
      T await_resume() {
        if (awaited.promise().thrown) std::rethrow_exception(awaited.promise().thrown);
        return awaited.promise().take();
      }
    };
    return Await{coroutine_};
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

/// Runs a task to its end by polling `completions`, where all requests that it awaits must
/// complete.
template <typename T>
T run(CompletionQueue completions, Task<T> task) {
  task.start();
  while (!task.done()) completions.wait();
  return task.result();
}

}  // namespace verbatim::inline v1

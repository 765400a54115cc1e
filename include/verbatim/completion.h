#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <verbatim/context.h>

namespace verbatim::inline v1 {

/// Result of a request that succeeded.
struct Completion {
  Operation operation = Operation::none;
  std::uint32_t bytes = 0;  ///< Received, or read. UD: without the 40 bytes of the GRH.
  std::optional<std::uint32_t> immediate;  ///< Receives: in host byte order.
  std::uint32_t queue_pair = 0;            ///< Number of the local queue pair.
  std::uint32_t source_queue_pair = 0;     ///< UD receives: the sender's number.
};

struct CompletionQueueOptions {
  std::uint32_t entries = 4096;
  /// True: several threads use the queue and its queue pairs at the same time. False: the queue,
  /// its queue pairs and their tokens belong to one thread (or the caller holds a lock), and no
  /// call takes a lock.
  bool shared_by_threads = false;
  /// How long `wait` polls before it sleeps until an event comes.
  std::chrono::microseconds spin{50};
};

namespace detail {
struct Queue;
}

/// Where requests complete. Tokens poll it themselves; a program needs its own only to share it
/// among queue pairs, or to wait for the first completion of several. Copies share the queue.
class CompletionQueue {
 public:
  static Result<CompletionQueue> make(const Context& context,
                                      const CompletionQueueOptions& options = {});

  /// Takes completions without waiting: completes tokens, then calls callbacks and resumes
  /// coroutines in this thread. Returns the number of completions.
  int poll();
  /// As `poll`, but waits for the first one; a negative `timeout` has no limit. Returns 0 when the
  /// time is over.
  int wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  /// Becomes readable when something may have completed, for poll(2) and event loops; then call
  /// `poll`. Call `arm` first.
  int event_descriptor() const noexcept;
  /// Requests one event. Returns false if something has completed, or a connection has ended, since
  /// the last call, also while this thread waited for something else: look at tokens, messages and
  /// connections instead of sleeping.
  bool arm();

  ibv_cq* native() const noexcept;
  const std::shared_ptr<detail::Queue>& handle() const noexcept { return queue_; }

 private:
  friend class ConnectionMaker;
  explicit CompletionQueue(std::shared_ptr<detail::Queue> queue) : queue_(std::move(queue)) {}
  std::shared_ptr<detail::Queue> queue_;
};

}  // namespace verbatim::inline v1

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <verbatim/context.h>

namespace verbatim {

/// What became of a request that succeeded.
struct Completion {
  Operation operation = Operation::none;
  std::uint32_t bytes = 0;  ///< Received, or read. Of UD, without the 40 bytes of the GRH.
  std::optional<std::uint32_t> immediate;  ///< Of a receive, host byte order.
  std::uint32_t queue_pair = 0;            ///< Number of the local queue pair.
  std::uint32_t source_queue_pair = 0;     ///< UD receives: number of the sender's.
};

struct CompletionQueueOptions {
  std::uint32_t entries = 4096;
  /// Several threads use the queue and what belongs to it. Else, one at a time: the queue, its
  /// queue pairs and their tokens are one thread's (or the caller holds a lock), and no call pays
  /// for a lock.
  bool shared_by_threads = false;
  /// How long `wait` polls before it sleeps until an event comes.
  std::chrono::microseconds spin{50};
};

namespace detail {
struct Queue;
}

/// Where requests complete. Tokens poll it themselves: a program needs one of its own only to share
/// it among queue pairs, or to wait for whatever comes first. Copies share the queue.
class CompletionQueue {
 public:
  static Result<CompletionQueue> make(const Context& context,
                                      const CompletionQueueOptions& options = {});

  /// Takes what has completed, without waiting: completes tokens, then calls callbacks and resumes
  /// coroutines from here. Returns how many completions there were.
  int poll();
  /// As `poll`, and waits for the first one; `timeout` below zero: for ever. Returns 0 when the
  /// time is over.
  int wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  /// Readable when something may have completed, for poll(2) and event loops: then call `poll`.
  /// `arm` first.
  int event_descriptor() const noexcept;
  /// Asks for one event. Returns false if something has completed already, or a connection has
  /// ended: call `poll` instead of sleeping.
  bool arm();

  ibv_cq* native() const noexcept;
  const std::shared_ptr<detail::Queue>& handle() const noexcept { return queue_; }

 private:
  friend class ConnectionMaker;
  explicit CompletionQueue(std::shared_ptr<detail::Queue> queue) : queue_(std::move(queue)) {}
  std::shared_ptr<detail::Queue> queue_;
};

}  // namespace verbatim

#pragma once

#include <memory>
#include <optional>

#include <verbatim/memory.h>
#include <verbatim/request.h>

namespace verbatim::inline v1 {

class QueuePair;

/// A message from a shared receive queue.
struct Message {
  Slice memory;           ///< As posted; the message is in its first `completion.bytes` bytes.
  std::uint64_t tag = 0;  ///< As posted.
  Completion completion;  ///< `completion.queue_pair`: the queue pair that received it.
};

struct SharedReceiveQueueOptions {
  std::uint32_t depth = 1024;  ///< Receives that can be posted at the same time.
};

namespace detail {
struct SharedReceives;
}

/// Receives that several queue pairs share. `next` returns the messages of all of them in order of
/// completion. All queue pairs must use the completion queue given here for their receives.
class SharedReceiveQueue {
 public:
  static Result<SharedReceiveQueue> make(const ProtectionDomain& domain,
                                         const CompletionQueue& completions,
                                         const SharedReceiveQueueOptions& options = {});

  /// Fails with `Status::queue_full`. The memory must stay registered until its message has
  /// arrived.
  Result<void> post(Slice memory VERBATIM_LIFETIME_BOUND, std::uint64_t tag = 0);
  /// Returns the next message, or the failure of its receive; empty if none has arrived. Polls the
  /// completion queue.
  std::optional<Result<Message>> next();
  /// Waits for the next message. Fails with `Status::timed_out`; a negative `timeout` has no limit.
  Result<Message> wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  ibv_srq* native() const noexcept;
  const std::shared_ptr<detail::SharedReceives>& handle() const noexcept { return receives_; }

 private:
  explicit SharedReceiveQueue(std::shared_ptr<detail::SharedReceives> receives)
      : receives_(std::move(receives)) {}
  std::shared_ptr<detail::SharedReceives> receives_;
};

}  // namespace verbatim::inline v1

#pragma once

#include <memory>
#include <optional>

#include <verbatim/memory.h>
#include <verbatim/request.h>

namespace verbatim {

class QueuePair;

/// A message that arrived on a shared receive queue.
struct Message {
  Slice memory;           ///< What was posted: `completion.bytes` of it hold the message.
  std::uint64_t tag = 0;  ///< As the receive was posted with.
  Completion completion;  ///< `completion.queue_pair` says which queue pair it came on.
};

struct SharedReceiveQueueOptions {
  std::uint32_t depth = 1024;  ///< Receives that can be posted at a time.
};

namespace detail {
struct SharedReceives;
}

/// Receives that several queue pairs take from, first come, first served. Messages of all of them
/// arrive here, in order of completion: `next`. All queue pairs must use the completion queue given
/// here for their receives.
class SharedReceiveQueue {
 public:
  static Result<SharedReceiveQueue> make(const ProtectionDomain& domain,
                                         const CompletionQueue& completions,
                                         const SharedReceiveQueueOptions& options = {});

  /// Fails with `Status::queue_full`. The memory must stay registered until its message has come.
  Result<void> post(Slice memory VERBATIM_LIFETIME_BOUND, std::uint64_t tag = 0);
  /// The next message, or what made its receive fail; empty if none has come. Polls the completion
  /// queue.
  std::optional<Result<Message>> next();
  /// Waits for it. Fails with `Status::timed_out`; `timeout` below zero: for ever.
  Result<Message> wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  ibv_srq* native() const noexcept;
  const std::shared_ptr<detail::SharedReceives>& handle() const noexcept { return receives_; }

 private:
  explicit SharedReceiveQueue(std::shared_ptr<detail::SharedReceives> receives)
      : receives_(std::move(receives)) {}
  std::shared_ptr<detail::SharedReceives> receives_;
};

}  // namespace verbatim

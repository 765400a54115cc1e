#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "api/queue.h"
#include "verbatim/receive_queue.h"

namespace verbatim::inline v1::detail {

/// The receives of a shared receive queue, and the received messages that wait for the program.
struct SharedReceives {
  static Result<std::shared_ptr<SharedReceives>> make(const ProtectionDomain& domain,
                                                      const CompletionQueue& completions,
                                                      const SharedReceiveQueueOptions& options);
  ~SharedReceives();

  Result<void> post(const Slice& memory, std::uint64_t tag);
  std::optional<Result<Message>> next();
  void on_completion(const ibv_wc& entry);

  /// For any thread (`DomainHandle`): the number of posted receives, and the number up to which all
  /// have completed.
  std::uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  std::uint64_t ended() const;

  std::shared_ptr<DomainHandle> domain;
  std::shared_ptr<Queue> queue;
  ibv_srq* srq = nullptr;

 private:
  struct Receive {
    Slice memory;
    std::uint64_t tag = 0;
    std::atomic<std::uint64_t> sequence{0};  // 0: free.
  };
  std::uint32_t number_ = 0;  // Number within the completion queue.
  std::atomic<std::uint64_t> posted_{0};
  std::vector<Receive> receives_;
  std::vector<std::uint32_t> free_;
  std::deque<Result<Message>> arrived_;
};

}  // namespace verbatim::inline v1::detail

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "adapter/ethernet/frame_delivery.h"
#include "adapter/ethernet/receive_hash.h"
#include "adapter/queues/async_event.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "arena/arena.h"
#include "base/error.h"
#include "base/types.h"
#include "region/region_table.h"
#include "wire/net/frame.h"

namespace verbatim::adapter {

/// With the values of `enum ibv_wq_state`.
enum class WorkQueueState : std::uint8_t { reset, ready, error };

struct WorkQueueOptions {
  PdNumber pd{};
  CompletionQueue* cq = nullptr;
  AsyncEvents* events = nullptr;
  std::uint32_t requests = 0;
  std::uint32_t segments = 0;
  void* owner = nullptr;  // The drop-in's object, for asynchronous events.
};

/// A receive queue (type IBV_WQT_RQ) that does not belong to a queue pair. An indirection table
/// assigns it to queue pairs with receive-side scaling. Thread-safe.
class WorkQueue {
 public:
  static constexpr std::uint32_t kRequestsMax = 1 << 15;

  /// EINVAL for exceeded limits, ENOMEM. The queue's `options` have the granted values.
  static Result<std::unique_ptr<WorkQueue>> create(Arena& arena, const region::RegionTable& regions,
                                                   const WorkQueueOptions& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  std::uint32_t number() const { return number_; }
  const WorkQueueOptions& options() const { return options_; }
  WorkQueueState state() const;

  /// From RESET to RDY, from RDY to ERR (posted receives complete as flushed), from any state to
  /// RESET (they are dropped) and to the same state; EINVAL otherwise, and if `expected` is not its
  /// state.
  Result<void> modify(WorkQueueState expected, WorkQueueState to);
  /// Returns 0 or an errno value: EINVAL in RESET or for too many segments, ENOMEM if full.
  int post_receive(std::uint64_t wr_id, std::span<const Segment> segments);

  /// Called in a pass.
  void on_frame(const SteeredFrame& frame);

 private:
  WorkQueue(const region::RegionTable& regions, const WorkQueueOptions& options,
            std::unique_ptr<ReceiveQueue> receives);
  void flush();
  void push(const Completion& completion);

  const region::RegionTable& regions_;
  const WorkQueueOptions options_;
  const std::uint32_t number_;
  mutable std::mutex lock_;  // Protects the members below.
  WorkQueueState state_ = WorkQueueState::reset;
  std::unique_ptr<ReceiveQueue> receives_;
  ReceiveRequest scratch_;
};

inline constexpr std::uint32_t kIndirectionTableMax = 1 << 10;  // Entries; a power of two.

/// Receive-side scaling of a queue pair: the hash selects an entry of a table, whose size is a
/// power of two. The work queues outlive it.
struct ReceiveScaling {
  ReceiveHash hash;
  std::vector<WorkQueue*> table;

  WorkQueue& queue_for(const wire::Frame& frame) const {
    return *table[hash_of(hash, frame) & (table.size() - 1)];
  }
};

}  // namespace verbatim::adapter

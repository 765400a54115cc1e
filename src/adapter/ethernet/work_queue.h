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
  void* owner = nullptr;  // The drop-in's object; comes back in asynchronous events.
};

/// A receive queue of its own (IBV_WQT_RQ), which an indirection table gives to queue pairs that
/// scale. Thread-safe.
class WorkQueue {
 public:
  static constexpr std::uint32_t kRequestsMax = 1 << 15;

  /// EINVAL for what the limits do not allow, ENOMEM. `options` of the queue tell what it has.
  static Result<std::unique_ptr<WorkQueue>> create(Arena& arena, const region::RegionTable& regions,
                                                   const WorkQueueOptions& options);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  std::uint32_t number() const { return number_; }
  const WorkQueueOptions& options() const { return options_; }
  WorkQueueState state() const;

  /// RESET to RDY, RDY to ERR (what is posted completes as flushed), any to RESET (it vanishes),
  /// and to where it is; EINVAL otherwise, and where `expected` is not its state.
  Result<void> modify(WorkQueueState expected, WorkQueueState to);
  /// 0 or an errno: EINVAL in RESET or for too many segments, ENOMEM when full.
  int post_receive(std::uint64_t wr_id, std::span<const Segment> segments);

  /// During a turn.
  void on_frame(const SteeredFrame& frame);

 private:
  WorkQueue(const region::RegionTable& regions, const WorkQueueOptions& options,
            std::unique_ptr<ReceiveQueue> receives);
  void flush();
  void push(const Completion& completion);

  const region::RegionTable& regions_;
  const WorkQueueOptions options_;
  const std::uint32_t number_;
  mutable std::mutex lock_;  // Guards what follows.
  WorkQueueState state_ = WorkQueueState::reset;
  std::unique_ptr<ReceiveQueue> receives_;
  ReceiveRequest scratch_;
};

inline constexpr std::uint32_t kIndirectionTableMax = 1 << 10;  // Entries; a power of two.

/// How a queue pair spreads what it receives (receive-side scaling): by the hash into a table,
/// whose size is a power of two. The work queues outlive it.
struct ReceiveScaling {
  ReceiveHash hash;
  std::vector<WorkQueue*> table;

  WorkQueue& queue_for(const wire::Frame& frame) const {
    return *table[hash_of(hash, frame) & (table.size() - 1)];
  }
};

}  // namespace verbatim::adapter

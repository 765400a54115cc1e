#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arena/arena.h"
#include "arena/receive_ring.h"
#include "base/error.h"

namespace verbatim::adapter {

using namespace arena;

/// A queue of receive requests, of one queue pair or shared. Any thread, any process.
class ReceiveQueue {
 public:
  /// A queue with `capacity` 0 is always full. EINVAL beyond kReceivesMax or kSegmentsMax; ENOMEM.
  static Result<std::unique_ptr<ReceiveQueue>> create(Arena& arena, std::uint32_t capacity,
                                                      std::uint32_t segments_max);
  ~ReceiveQueue();
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  std::uint32_t capacity() const { return ring_->capacity.load(std::memory_order_relaxed); }
  std::uint32_t segments_max() const { return ring_->segments_max; }
  std::uint32_t count() const { return ring_->count(); }
  /// Returns 0 or an errno value, as `ibv_post_recv`: ENOMEM if full, EINVAL for too many segments.
  /// Without a text, because this is the hot path.
  int post(std::uint64_t wr_id, std::span<const Segment> segments);
  bool take(ReceiveRequest& out) { return ring_->take(base_, out); }
  Offset<ReceiveRing> ring() const { return ring_offset_; }
  /// Changes the capacity; keeps the queue's content. EINVAL if it has more requests, or beyond
  /// kReceivesMax.
  Result<void> resize(std::uint32_t capacity);

  /// Sets a new limit. Returns true if the old one was reached and its event has not been raised
  /// yet.
  bool set_limit(std::uint32_t limit) {
    return ring_->limit.exchange(limit) == ReceiveRing::kLimitReached;
  }
  std::uint32_t limit() const {
    return ring_->limit.load(std::memory_order_relaxed) & ~ReceiveRing::kLimitReached;
  }
  bool disarm_limit() { return ring_->disarm_limit(); }

 private:
  ReceiveQueue() = default;

  Arena* arena_ = nullptr;
  std::byte* base_ = nullptr;  // The arena's.
  Offset<ReceiveRing> ring_offset_;
  ReceiveRing* ring_ = nullptr;
};

}  // namespace verbatim::adapter

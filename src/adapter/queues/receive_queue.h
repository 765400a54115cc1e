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

/// A queue of receive requests: of one queue pair, or shared. Any thread, any process.
class ReceiveQueue {
 public:
  /// `capacity` may be 0: such a queue is always full. EINVAL beyond kReceivesMax or kSegmentsMax;
  /// ENOMEM.
  static Result<std::unique_ptr<ReceiveQueue>> create(Arena& arena, std::uint32_t capacity,
                                                      std::uint32_t segments_max);
  ~ReceiveQueue();
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  std::uint32_t capacity() const { return ring_->capacity.load(std::memory_order_relaxed); }
  std::uint32_t segments_max() const { return ring_->segments_max; }
  std::uint32_t count() const { return ring_->count(); }
  /// ENOMEM when full, EINVAL for too many segments: as `ibv_post_recv` fails. No words: it is on
  /// the hot path; 0 is success.
  int post(std::uint64_t wr_id, std::span<const Segment> segments);
  bool take(ReceiveRequest& out) { return ring_->take(base_, out); }
  Offset<ReceiveRing> ring() const { return ring_offset_; }
  /// Another capacity; what is in the queue stays. EINVAL where more is in it, or beyond
  /// kReceivesMax.
  Result<void> resize(std::uint32_t capacity);

  /// True: the limit until now was reached, and that is still to be told.
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
  std::byte* base_ = nullptr;  // Of the arena.
  Offset<ReceiveRing> ring_offset_;
  ReceiveRing* ring_ = nullptr;
};

}  // namespace verbatim::adapter

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/arena.h"
#include "base/spin_lock.h"

namespace verbatim::adapter {

/// A scatter/gather element, with the layout of `struct ibv_sge`.
struct Segment {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
};

/// A receive request that was taken from its queue: a copy, so that the ring's place is free at once.
inline constexpr std::uint32_t kSegmentsMax = 32;
struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t segment_count = 0;
  Segment segments[kSegmentsMax];
};

/// The ring in the arena; each place is a ReceivePlace followed by `segments_max` segments.
struct ReceiveRing {
  SpinLock lock;
  std::uint32_t capacity = 0;  // As asked for: the queue is full with so many.
  std::uint32_t segments_max = 0;
  std::uint32_t place_bytes = 0;
  std::uint64_t posted = 0;
  std::uint64_t taken = 0;
  Offset<std::byte> places;
};
struct ReceivePlace {
  std::uint64_t wr_id = 0;
  std::uint32_t segment_count = 0;
  std::uint32_t reserved = 0;
};

/// A queue of receive requests: of one queue pair, or shared (a later issue). Any thread, any process.
class ReceiveQueue {
 public:
  static Result<std::unique_ptr<ReceiveQueue>> create(Arena& arena, std::uint32_t capacity,
                                                      std::uint32_t segments_max);
  ~ReceiveQueue();
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;

  std::uint32_t capacity() const { return ring_->capacity; }
  std::uint32_t segments_max() const { return ring_->segments_max; }
  std::uint32_t count() const;
  /// ENOMEM when full, EINVAL for too many segments: as `ibv_post_recv` fails. No words: it is on the hot path; 0 is success.
  int post(std::uint64_t wr_id, std::span<const Segment> segments);
  bool take(ReceiveRequest& out);

 private:
  ReceiveQueue() = default;
  Arena* arena_ = nullptr;
  Offset<ReceiveRing> ring_offset_;
  ReceiveRing* ring_ = nullptr;
};

}  // namespace verbatim::adapter

#pragma once

#include <atomic>
#include <cstddef>
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

/// A receive request that was taken from its queue: a copy, so that the ring's place is free at
/// once.
inline constexpr std::uint32_t kSegmentsMax = 32;
inline constexpr std::uint32_t kReceivesMax = 1 << 20;  // Requests of one queue.
struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t segment_count = 0;
  Segment segments[kSegmentsMax];
};

/// The ring in the arena: the smallest power of two of places that holds `capacity`; each place is
/// a ReceivePlace followed by `segments_max` segments. Whoever posts or takes holds `lock`.
struct ReceiveRing {
  SpinLock lock;
  std::atomic<std::uint32_t> capacity{0};  // As asked for: the queue is full with so many.
  std::uint32_t segments_max = 0;
  std::uint32_t place_bytes = 0;
  std::atomic<std::uint64_t> posted{0};  // Atomic for `count` only, which takes no lock.
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint32_t> limit{0};  // Of a shared queue: with fewer it tells once; 0: never.
  Offset<std::byte> places;             // Changes when the queue is resized, under `lock`.
};
struct ReceivePlace {
  std::uint64_t wr_id = 0;
  std::uint32_t segment_count = 0;
  std::uint32_t reserved = 0;
};

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
  std::uint32_t count() const {
    // `taken` first: it never passes `posted`, so the difference is never negative.
    const std::uint64_t taken = ring_->taken.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(ring_->posted.load(std::memory_order_acquire) - taken);
  }
  /// ENOMEM when full, EINVAL for too many segments: as `ibv_post_recv` fails. No words: it is on
  /// the hot path; 0 is success.
  int post(std::uint64_t wr_id, std::span<const Segment> segments);
  /// The oldest request. False when there is none, and `out` is untouched; else only the segments
  /// that the request has are written.
  bool take(ReceiveRequest& out);
  /// Another capacity; what is in the queue stays. EINVAL where more is in it, or beyond
  /// kReceivesMax.
  Result<void> resize(std::uint32_t capacity);

  /// `disarm_limit` is true once, as soon as fewer requests than the limit are there. Who takes a
  /// request asks afterwards, and who sets the limit too.
  void set_limit(std::uint32_t limit) { ring_->limit.store(limit); }
  std::uint32_t limit() const { return ring_->limit.load(std::memory_order_relaxed); }
  bool disarm_limit() {
    std::uint32_t limit = ring_->limit.load();
    return limit != 0 && count() < limit && ring_->limit.compare_exchange_strong(limit, 0);
  }

 private:
  ReceiveQueue() = default;
  std::byte* place(std::uint64_t number) { return places_ + (number & mask_) * place_bytes_; }

  Arena* arena_ = nullptr;
  Offset<ReceiveRing> ring_offset_;
  ReceiveRing* ring_ = nullptr;
  // The next three change under the ring's lock.
  Offset<std::byte> places_offset_;
  std::byte* places_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint32_t place_bytes_ = 0;
};

}  // namespace verbatim::adapter

#include "adapter/queues/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

namespace verbatim::adapter {
namespace {

/// More than `capacity`: in a full ring, too, the place that is written next is some cache lines
/// from the one that is taken next.
std::uint64_t places_for(std::uint32_t capacity) {
  constexpr std::uint64_t kApart = 8;
  return std::bit_ceil(capacity + kApart);
}

}  // namespace

Result<std::unique_ptr<ReceiveQueue>> ReceiveQueue::create(Arena& arena, std::uint32_t capacity,
                                                           std::uint32_t segments_max) {
  if (capacity > kReceivesMax || segments_max > kSegmentsMax) {
    return refuse(EINVAL,
                  fmt::format("receive queue: {} requests of {} segments asked for; at most {} of "
                              "{} are possible",
                              capacity, segments_max, kReceivesMax, kSegmentsMax));
  }
  const std::uint64_t wqes = places_for(capacity);
  const std::size_t wqe_bytes = sizeof(ReceiveWqe) + segments_max * sizeof(Segment);
  const auto ring = arena.allocate(sizeof(ReceiveRing));
  if (!ring) return std::unexpected(ring.error());
  const auto memory = arena.allocate(wqes * wqe_bytes);
  if (!memory) {
    arena.free(*ring, sizeof(ReceiveRing));
    return std::unexpected(memory.error());
  }
  std::unique_ptr<ReceiveQueue> queue(new ReceiveQueue);
  queue->arena_ = &arena;
  queue->base_ = arena.base();
  queue->ring_offset_.value = ring->value;
  queue->ring_ = new (arena.at(*ring)) ReceiveRing;
  queue->ring_->capacity = capacity;
  queue->ring_->segments_max = segments_max;
  queue->ring_->wqe_bytes = static_cast<std::uint32_t>(wqe_bytes);
  queue->ring_->wqes = *memory;
  queue->ring_->mask = static_cast<std::uint32_t>(wqes - 1);
  return queue;
}

ReceiveQueue::~ReceiveQueue() {
  const std::uint64_t places = std::uint64_t{ring_->mask} + 1;
  // Before the ring begins again, only those that were posted were written.
  const std::uint64_t written = std::min(ring_->posted.load(std::memory_order_acquire), places);
  arena_->free(ring_->wqes, places * ring_->wqe_bytes, written * ring_->wqe_bytes);
  arena_->free({ring_offset_.value}, sizeof(ReceiveRing));
}

Result<void> ReceiveQueue::resize(std::uint32_t capacity) {
  const auto bad = [&] {
    return refuse(EINVAL, fmt::format("{} requests asked for: the queue holds {} now, and can have "
                                      "{} at most",
                                      capacity, count(), kReceivesMax));
  };
  if (capacity > kReceivesMax) return bad();
  const auto mask = static_cast<std::uint32_t>(places_for(capacity) - 1);
  const std::size_t wqe_bytes = ring_->wqe_bytes;
  const auto memory = arena_->allocate((std::size_t{mask} + 1) * wqe_bytes);
  if (!memory) return std::unexpected(memory.error());
  std::byte* const wqes = arena_->at(*memory);
  Offset<std::byte> unused = *memory;
  std::size_t unused_mask = mask;
  {
    const std::scoped_lock guard(ring_->posting, ring_->taking);
    if (count() <= capacity) {
      const std::uint64_t end = ring_->posted.load(std::memory_order_relaxed);
      for (auto i = ring_->taken.load(std::memory_order_relaxed); i != end; ++i) {
        std::memcpy(wqes + (i & mask) * wqe_bytes, ring_->wqe(base_, i), wqe_bytes);
      }
      unused = std::exchange(ring_->wqes, *memory);
      unused_mask = std::exchange(ring_->mask, mask);
      ring_->capacity.store(capacity, std::memory_order_relaxed);
    }
  }
  arena_->free(unused, (unused_mask + 1) * wqe_bytes);
  if (unused.value == memory->value) return bad();
  return {};
}

int ReceiveQueue::post(std::uint64_t wr_id, std::span<const Segment> segments) {
  if (segments.size() > ring_->segments_max) return EINVAL;
  const std::lock_guard guard(ring_->posting);
  const std::uint64_t posted = ring_->posted.load(std::memory_order_relaxed);
  if (posted - ring_->taken_seen >= ring_->capacity) {
    // Acquire: the taker of the WQE has read it.
    ring_->taken_seen = ring_->taken.load(std::memory_order_acquire);
    if (posted - ring_->taken_seen >= ring_->capacity) return ENOMEM;
  }
  std::byte* const to = ring_->wqe(base_, posted);
  new (to) ReceiveWqe{wr_id, static_cast<std::uint32_t>(segments.size())};
  std::ranges::copy(segments, segments_of(to));
  ring_->posted.store(posted + 1, std::memory_order_release);
  __builtin_prefetch(ring_->wqe(base_, posted + 1), 1);
  return 0;
}

}  // namespace verbatim::adapter

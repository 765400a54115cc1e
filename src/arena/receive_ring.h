#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "arena/offset.h"
#include "base/always_inline.h"
#include "base/os/spin_lock.h"

namespace verbatim::arena {

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

struct ReceiveWqe {
  std::uint64_t wr_id = 0;
  std::uint32_t segment_count = 0;
  std::uint32_t reserved = 0;
};

/// The segments behind a request's header, in its place of the ring.
inline Segment* segments_of(std::byte* wqe) {
  return reinterpret_cast<Segment*>(wqe + sizeof(ReceiveWqe));
}

/// The ring in the arena: the smallest power of two of places that holds `capacity`; each place is
/// a ReceiveWqe followed by `segments_max` segments. Who posts holds `posting`, who takes, in any
/// process, `taking`; each side has a line of its own, and looks at the other's counter only when
/// what it last saw of it is used up. A counter changes last: a ring whose user was killed is as
/// before or as after. A request that was taken by somebody who was killed before saying that it is
/// held is said to be by the next who takes (`finish_last`).
struct ReceiveRing {
  // Of who posts.
  alignas(64) SpinLock posting;  // Before `taking`, where both are taken.
  std::atomic<std::uint64_t> posted{0};
  std::uint64_t taken_seen = 0;
  // Of who takes.
  alignas(64) SpinLock taking;
  std::atomic<std::uint64_t> taken{0};
  std::uint64_t posted_seen = 0;
  std::atomic<std::uint64_t> finished{0};  // `taken`, or one less.
  std::atomic<std::uint64_t> holder{0};    // The flag's offset, of who takes; 0: none.
  // Of both. Changes under both locks, but for `limit`.
  alignas(64) std::atomic<std::uint32_t> capacity{0};  // So many make it full.
  std::uint32_t segments_max = 0;
  std::uint32_t wqe_bytes = 0;
  std::atomic<std::uint32_t> limit{0};  // Of a shared queue: with fewer it tells once; 0: never.
  static constexpr std::uint32_t kLimitReached = 1U << 31;  // In its place: there is news of it.
  std::uint32_t mask = 0;                                   // Places - 1.
  Offset<std::byte> wqes;

  std::uint32_t count() const {
    // `taken` first: it never passes `posted`, so the difference is never negative.
    const std::uint64_t before = taken.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(posted.load(std::memory_order_acquire) - before);
  }
  /// The oldest request; `arena` is where the ring's arena is mapped. False when there is none, and
  /// `out` is untouched; else only the segments that the request has are written. `holds`, in the
  /// arena too, says then that `out` is a request in use: it is so in the very instant in which the
  /// request is no longer in the ring.
  bool take(std::byte* arena, ReceiveRequest& out, std::atomic<bool>* holds = nullptr);
  /// What somebody who was killed has taken is in use.
  void finish(std::byte* arena) {
    const std::lock_guard guard(taking);
    finish_last(arena);
  }
  /// Whether the owner has to be told that fewer requests than the limit are there, or were. True
  /// until the owner has disarmed it, so nothing is lost with somebody who is killed before
  /// telling. Who takes a request asks afterwards.
  bool reaches_limit() {
    std::uint32_t now = limit.load();
    if (now == 0 || now == kLimitReached) return now != 0;
    return count() < now && limit.compare_exchange_strong(now, kLimitReached);
  }
  /// Of the owner: true once for each limit that was reached.
  bool disarm_limit() {
    std::uint32_t reached = kLimitReached;
    return reaches_limit() && limit.compare_exchange_strong(reached, 0);
  }
  /// Under one of the locks.
  std::byte* wqe(std::byte* arena, std::uint64_t number) const {
    return arena + wqes.value + (number & mask) * wqe_bytes;
  }

 private:
  /// Under `taking`.
  VERBATIM_ALWAYS_INLINE void finish_last(std::byte* arena) {
    const std::uint64_t end = taken.load(std::memory_order_relaxed);
    if (finished.load(std::memory_order_relaxed) != end) recover(arena, end);
  }
  void finish_take(std::byte* arena, std::uint64_t end);
  void recover(std::byte* arena, std::uint64_t end);  // `finish_take`, out of the way of requests.
};

}  // namespace verbatim::arena

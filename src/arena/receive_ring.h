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

/// A receive request that was taken from its queue: a copy, so that its WQE is free at once.
inline constexpr std::uint32_t kSegmentsMax = 32;
inline constexpr std::uint32_t kReceivesMax = 1 << 20;  // Requests in one queue.
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

/// Returns the segments after the header of a WQE.
inline Segment* segments_of(std::byte* wqe) {
  return reinterpret_cast<Segment*>(wqe + sizeof(ReceiveWqe));
}

/// Receive ring in the arena: a power of two of WQEs, each a ReceiveWqe and `segments_max`
/// segments. Posters hold `posting`; takers, of any process, hold `taking`. Each side has its own
/// cache line and re-reads the other's counter only when its cached value is used up. Counters are
/// stored last, so a killed process leaves the ring as before or after its step. If a taker is
/// killed before it has set its `holds` flag, the next taker sets it (`finish_last`).
struct ReceiveRing {
  // Fields of posters.
  alignas(64) SpinLock posting;  // Taken before `taking` if both are taken.
  std::atomic<std::uint64_t> posted{0};
  std::uint64_t taken_seen = 0;
  // Fields of takers.
  alignas(64) SpinLock taking;
  std::atomic<std::uint64_t> taken{0};
  std::uint64_t posted_seen = 0;
  std::atomic<std::uint64_t> finished{0};  // `taken`, or one less.
  // Offset in the arena of the `holds_receive` flag that the current take sets; 0: none.
  std::atomic<std::uint64_t> holder{0};
  // Fields of both. They change under both locks, except `limit`.
  alignas(64) std::atomic<std::uint32_t> capacity{0};  // Number of requests at which post fails.
  std::uint32_t segments_max = 0;
  std::uint32_t wqe_bytes = 0;
  // SRQ limit: with fewer requests than this the limit event is due, once; 0: disarmed.
  std::atomic<std::uint32_t> limit{0};
  // Value of `limit` while its event is due.
  static constexpr std::uint32_t kLimitReached = 1U << 31;
  std::uint32_t mask = 0;  // Number of WQEs - 1.
  Offset<std::byte> wqes;

  std::uint32_t count() const {
    // `taken` is read first: it never exceeds `posted`, so the difference is not negative.
    const std::uint64_t before = taken.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(posted.load(std::memory_order_acquire) - before);
  }
  /// Takes the oldest request into `out`, which gets only the request's own segments; `arena`:
  /// address at which the ring's arena is mapped. Returns false, with `out` unchanged, if the ring
  /// is empty. `holds` (null, or a flag in the same arena) is set when the request leaves the ring,
  /// also if this process is killed in between; if it is already set, `out` still has that earlier
  /// request and nothing is taken.
  bool take(std::byte* arena, ReceiveRequest& out, std::atomic<bool>* holds = nullptr);
  /// Completes a take whose process was killed: sets its `holds` flag.
  void finish(std::byte* arena) {
    const std::lock_guard guard(taking);
    finish_last(arena);
  }
  /// Returns true if fewer requests than the SRQ limit are, or have been, posted. Stays true until
  /// the owner calls `disarm_limit`, so the event is not lost if the taker is killed before it
  /// notifies the owner. Call after each take.
  bool reaches_limit() {
    std::uint32_t now = limit.load();
    if (now == 0 || now == kLimitReached) return now != 0;
    return count() < now && limit.compare_exchange_strong(now, kLimitReached);
  }
  /// Called by the owner: returns true, and disarms the limit, once for each limit that was
  /// reached.
  bool disarm_limit() {
    std::uint32_t reached = kLimitReached;
    return reaches_limit() && limit.compare_exchange_strong(reached, 0);
  }
  /// Requires one of the locks.
  std::byte* wqe(std::byte* arena, std::uint64_t number) const {
    return arena + wqes.value + (number & mask) * wqe_bytes;
  }

 private:
  /// Requires `taking`.
  VERBATIM_ALWAYS_INLINE void finish_last(std::byte* arena) {
    const std::uint64_t end = taken.load(std::memory_order_relaxed);
    if (finished.load(std::memory_order_relaxed) != end) recover(arena, end);
  }
  void finish_take(std::byte* arena, std::uint64_t end);
  void recover(std::byte* arena, std::uint64_t end);  // `finish_take`, not inlined.
};

}  // namespace verbatim::arena

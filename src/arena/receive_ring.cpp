#include "arena/receive_ring.h"

namespace verbatim::arena {

VERBATIM_ALWAYS_INLINE void ReceiveRing::finish_take(std::byte* arena, std::uint64_t end) {
  if (const std::uint64_t flag = holder.load(std::memory_order_relaxed); flag != 0) {
    reinterpret_cast<std::atomic<bool>*>(arena + flag)->store(true, std::memory_order_release);
  }
  finished.store(end, std::memory_order_release);
}

void ReceiveRing::recover(std::byte* arena, std::uint64_t end) { finish_take(arena, end); }

/// All stores are releases: if this process is killed, the next taker sees them in this order.
bool ReceiveRing::take(std::byte* arena, ReceiveRequest& out, std::atomic<bool>* holds) {
  const std::lock_guard guard(taking);
  finish_last(arena);
  if (holds != nullptr && holds->load(std::memory_order_relaxed))
    return true;  // It was this process's own take.
  const std::uint64_t number = taken.load(std::memory_order_relaxed);
  if (posted_seen <= number) {
    posted_seen = posted.load(std::memory_order_acquire);
    if (posted_seen <= number) return false;
  }
  std::byte* const from = wqe(arena, number);
  const auto* const header = reinterpret_cast<const ReceiveWqe*>(from);
  out.wr_id = header->wr_id;
  out.segment_count = header->segment_count;
  out.capacity_bytes = 0;
  for (std::uint32_t i = 0; i < header->segment_count; ++i) {
    out.segments[i] = segments_of(from)[i];
    out.capacity_bytes += out.segments[i].length;
  }
  const auto* const flag = reinterpret_cast<const std::byte*>(holds);
  holder.store(holds == nullptr ? 0 : static_cast<std::uint64_t>(flag - arena),
               std::memory_order_release);
  taken.store(number + 1, std::memory_order_release);
  finish_take(arena, number + 1);
  if (posted_seen > number + 1) __builtin_prefetch(wqe(arena, number + 1));
  return true;
}

}  // namespace verbatim::arena

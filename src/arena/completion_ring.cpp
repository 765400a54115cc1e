#include "arena/completion_ring.h"

namespace verbatim::arena {

/// Returns true if entry `number` fits; updates `room_until` from `consumed`. Requires `lock`.
bool CompletionRing::make_room(std::uint64_t number) {
  room_until = consumed.load(std::memory_order_acquire) + capacity;
  if (number < room_until) return true;
  if (!ignores_overrun) {
    overrun.store(lost_entry, std::memory_order_relaxed);
    return false;
  }
  const std::lock_guard guard(taking);
  const std::uint64_t oldest = consumed.load(std::memory_order_relaxed);
  if (number - oldest >= capacity) consumed.store(oldest + 1, std::memory_order_release);
  return true;
}

void CompletionRing::recover(std::byte* arena, std::uint64_t end) { finish_entry(arena, end); }

}  // namespace verbatim::arena

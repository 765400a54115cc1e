#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "arena/offset.h"
#include "base/always_inline.h"
#include "base/completion_status.h"
#include "base/os/spin_lock.h"
#include "base/time.h"

namespace verbatim::arena {

/// The operation that a completion is for, with the values of `enum ibv_wc_opcode`.
enum class CompletionOpcode : std::uint8_t {
  send = 0,
  write = 1,
  read = 2,
  compare_and_swap = 3,
  fetch_and_add = 4,
  bind_window = 5,
  local_invalidate = 6,
  flush = 8,
  atomic_write = 9,
  receive = 128,
  receive_write_with_immediate = 129,
  tag_added = 130,
  tag_removed = 131,
  tags_synchronized = 132,
  tagged_receive = 133,    // Of a message with a tag, whether it matched or not.
  untagged_receive = 134,  // Of a message without a tag, in a tag matching queue.
};

/// Bits of Completion::flags, with the values of `enum ibv_wc_flags`.
inline constexpr std::uint32_t kCompletionGrh = 1;
inline constexpr std::uint32_t kCompletionWithImmediate = 2;
inline constexpr std::uint32_t kCompletionChecksumsValid = 4;  // IBV_WC_IP_CSUM_OK.
inline constexpr std::uint32_t kCompletionWithInvalidate = 8;
inline constexpr std::uint32_t kCompletionTagsMustSynchronize = 16;
inline constexpr std::uint32_t kCompletionTagMatch = 32;
inline constexpr std::uint32_t kCompletionTagDataValid = 64;

/// An entry in the shared arena.
struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status{};
  CompletionOpcode opcode{};
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;  // InfiniBand datagrams: of the LID that they came to.
  std::uint32_t vendor_error = 0;
  std::uint32_t byte_count = 0;
  /// In network byte order. Or the key that the peer has invalidated; raw packets: the flow rule's
  /// tag.
  std::uint32_t immediate = 0;
  std::uint32_t qpn = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t flags = 0;
  std::uint16_t pkey_index = 0;
  std::uint16_t source_lid = 0;  // InfiniBand datagrams.
  std::uint64_t timestamp = 0;   // TimeNs of the push, in queues whose programs ask for it.
  std::uint64_t tag = 0;         // Of a message that matched, as is `tag_context`.
  std::uint32_t tag_context = 0;
  /// Generation of the entry. The entry is valid if this equals generation_of(consumer position);
  /// 0: never written. The producer stores it last, with release order, so that a consumer polls
  /// one cache line (as the owner bit of a hardware CQE).
  std::uint32_t generation = 0;

  /// Copies all fields but `generation` (a consumer may be polling it) and `timestamp`. Field by
  /// field: a wide load from fields that were just stored one by one waits for the store buffer,
  /// behind the payload's stores.
  VERBATIM_ALWAYS_INLINE void take(const Completion& other) {
    wr_id = other.wr_id;
    status = other.status;
    opcode = other.opcode;
    service_level = other.service_level;
    path_bits = other.path_bits;
    vendor_error = other.vendor_error;
    byte_count = other.byte_count;
    immediate = other.immediate;
    qpn = other.qpn;
    source_qpn = other.source_qpn;
    flags = other.flags;
    pkey_index = other.pkey_index;
    source_lid = other.source_lid;
    tag = other.tag;
    tag_context = other.tag_context;
  }
};
static_assert(sizeof(Completion) == 64);

/// Completion ring in the arena. Producers (of any process) hold `lock`, consumers hold `taking`;
/// each side's fields have cache lines of their own. An entry exists once `produced` counts it. If
/// its producer is killed after that, the next holder of `lock` publishes the entry
/// (`finish_last`): stores its `generation`, clears the flag of the receive that it completes, and
/// triggers the channel event if one is due.
struct CompletionRing {
  // Fields of producers.
  alignas(64) SpinLock lock;
  std::uint32_t capacity = 0;              // A power of two. Changes under both locks.
  std::atomic<std::uint64_t> produced{0};  // Stored after the entry, before its generation.
  std::atomic<std::uint64_t> finished{0};  // Published entries: `produced`, or one less.
  // `produced` may reach this value; beyond it `make_room` reads `consumed` again.
  std::uint64_t room_until = 0;
  /// `notifying`: an entry has triggered an event that is not yet pushed to the channel.
  enum Armed : std::uint32_t { not_armed, solicited_only, any, notifying };
  std::atomic<std::uint32_t> armed{not_armed};
  // From `lost_entry` on, an entry was lost because the ring was full: the queue stays in error.
  enum Overrun : std::uint32_t { no_overrun, lost_entry, reported };
  std::atomic<std::uint32_t> overrun{no_overrun};
  Offset<Completion> entries;  // Changes under both locks.
  bool timestamps = false;     // Constant, like the next field.
  bool ignores_overrun = false;
  std::atomic<bool> is_solicited{false};  // Of the entry that is being added.
  // Offset in the arena of the `holds_receive` flag that the entry clears; 0: none.
  std::atomic<std::uint64_t> completes{0};
  // Fields of consumers.
  alignas(64) SpinLock taking;  // Taken after `lock` if both are taken.
  std::atomic<std::uint64_t> consumed{0};

  /// Returns the number of the first entry of the next round through the ring, which differs from
  /// that of the round before.
  static std::uint32_t generation_of(std::uint64_t number, std::uint64_t capacity) {
    return static_cast<std::uint32_t>((number | (capacity - 1)) + 1);
  }
  /// Publishes the last entry if its producer was killed. Requires `lock`.
  void finish_last(std::byte* arena) {
    const std::uint64_t end = produced.load(std::memory_order_relaxed);
    if (finished.load(std::memory_order_relaxed) != end) recover(arena, end);
  }
  void finish(std::byte* arena) {
    const std::lock_guard guard(lock);
    finish_last(arena);
  }

  enum class Added : std::uint8_t { no_event, event_due, overrun_now };
  /// Adds an entry; `arena`: address at which the ring's arena is mapped. The result tells if the
  /// entry triggers a channel event, which the caller then pushes; and if the ring is full, or was
  /// overrun before (`overrun_now`: for the first time). `holds` (null, or a flag in the same
  /// arena) is cleared before the entry becomes valid, also if this process is killed in between.
  /// `number` (may be null) gets the entry's number.
  Added add(std::byte* arena, const Completion& entry, bool solicited,
            std::atomic<bool>* holds = nullptr, std::uint64_t* number = nullptr);
  /// Prefetches the next entry for writing: a hint.
  void prefetch_next(std::byte* arena) const {
    const std::uint64_t number = produced.load(std::memory_order_relaxed);
    __builtin_prefetch(arena + entries.value + (number & (capacity - 1)) * sizeof(Completion), 1);
  }

 private:
  void finish_entry(std::byte* arena, std::uint64_t end);
  void recover(std::byte* arena, std::uint64_t end);  // `finish_entry`, not inlined.
  bool make_room(std::uint64_t number);
};

/// Returns true if the entry triggers a channel event: armed for any entry; or armed for solicited
/// ones, and it is solicited or an error.
inline bool triggers_event(std::uint32_t armed, CompletionStatus status, bool solicited) {
  if (armed == CompletionRing::not_armed || armed == CompletionRing::notifying) return false;
  return armed == CompletionRing::any || solicited || status != CompletionStatus::success;
}

/// Publishes entry `end - 1`. Idempotent, since this process may be killed here too. All stores are
/// releases, so they become visible in this order. Requires `lock`.
VERBATIM_ALWAYS_INLINE void CompletionRing::finish_entry(std::byte* arena, std::uint64_t end) {
  auto& last = reinterpret_cast<Completion*>(arena + entries.value)[(end - 1) & (capacity - 1)];
  if (const std::uint64_t flag = completes.load(std::memory_order_relaxed); flag != 0) {
    reinterpret_cast<std::atomic<bool>*>(arena + flag)->store(false, std::memory_order_release);
  }
  // Before the consumer can see the entry and arm again.
  const bool solicited = is_solicited.load(std::memory_order_relaxed);
  if (triggers_event(armed.load(std::memory_order_relaxed), last.status, solicited)) {
    armed.store(notifying, std::memory_order_release);
  }
  std::atomic_ref(last.generation)
      .store(generation_of(end - 1, capacity), std::memory_order_release);
  finished.store(end, std::memory_order_release);
}

VERBATIM_ALWAYS_INLINE CompletionRing::Added CompletionRing::add(std::byte* arena,
                                                                 const Completion& entry,
                                                                 bool solicited,
                                                                 std::atomic<bool>* holds,
                                                                 std::uint64_t* number_out) {
  const TimeNs now = timestamps ? monotonic_now() : 0;
  const std::lock_guard guard(lock);
  if (overrun.load(std::memory_order_relaxed) != no_overrun) return Added::overrun_now;
  const bool was_notifying = armed.load(std::memory_order_relaxed) == notifying;
  finish_last(arena);
  const std::uint64_t number = produced.load(std::memory_order_relaxed);
  if (number >= room_until && !make_room(number)) return Added::overrun_now;
  if (number_out != nullptr) *number_out = number;
  auto& place = reinterpret_cast<Completion*>(arena + entries.value)[number & (capacity - 1)];
  place.take(entry);
  place.timestamp = now;
  const auto* const flag = reinterpret_cast<const std::byte*>(holds);
  completes.store(holds == nullptr ? 0 : static_cast<std::uint64_t>(flag - arena),
                  std::memory_order_release);
  is_solicited.store(solicited, std::memory_order_release);
  produced.store(number + 1, std::memory_order_release);
  finish_entry(arena, number + 1);
  const bool is_notifying = armed.load(std::memory_order_relaxed) == notifying;
  return is_notifying && !was_notifying ? Added::event_due : Added::no_event;
}

}  // namespace verbatim::arena

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

/// What an entry says was completed, with the values of `enum ibv_wc_opcode`.
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
  untagged_receive = 134,  // Of one without, in a tag matching queue.
};

/// Bits of Completion::flags, with the values of `enum ibv_wc_flags`.
inline constexpr std::uint32_t kCompletionGrh = 1;
inline constexpr std::uint32_t kCompletionWithImmediate = 2;
inline constexpr std::uint32_t kCompletionChecksumsValid = 4;  // IBV_WC_IP_CSUM_OK.
inline constexpr std::uint32_t kCompletionWithInvalidate = 8;
inline constexpr std::uint32_t kCompletionTagsMustSynchronize = 16;
inline constexpr std::uint32_t kCompletionTagMatch = 32;
inline constexpr std::uint32_t kCompletionTagDataValid = 64;

/// An entry as it lies in the shared arena.
struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status{};
  CompletionOpcode opcode{};
  std::uint8_t service_level = 0;
  std::uint8_t path_bits = 0;  // InfiniBand datagrams: of the LID that they came to.
  std::uint32_t vendor_error = 0;
  std::uint32_t byte_count = 0;
  /// Network byte order. Or the key that the peer has invalidated; raw packets: the flow rule's
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
  /// The entry is there when it names the lap in which the consumer comes by (`generation_of`; 0:
  /// it never was). Release by the producer, so that one cache line tells the consumer all.
  std::uint32_t generation = 0;

  /// All but the lap, at which a consumer may be looking, and the timestamp. Field by field: who
  /// has just written small pieces waits for the store buffer when it reads them in large ones, and
  /// there the payload comes first, whose line another processor has.
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

/// The ring in the arena. Producers (any process) take `lock`, consumers `taking`; each side has
/// lines of its own, so that neither waits for the other's. Who is killed leaves the ring as before
/// or as after: an entry counts when `produced` says so, and the next who has the lock does what is
/// missing then (`finish_last`): its lap, the end of the receive request that it completes, and
/// what it means for the channel.
struct CompletionRing {
  // Of producers.
  alignas(64) SpinLock lock;
  std::uint32_t capacity = 0;              // A power of two. Changes under both locks.
  std::atomic<std::uint64_t> produced{0};  // After the entry is written, before its lap.
  std::atomic<std::uint64_t> finished{0};  // Entries of which all is done: `produced`, or one less.
  std::uint64_t room_until = 0;            // `produced` may grow so far; more has to be looked at.
  /// `telling`: an entry has answered, and the channel does not know yet.
  enum Armed : std::uint32_t { not_armed, solicited_only, any, notifying };
  std::atomic<std::uint32_t> armed{not_armed};
  // From `lost_entry` on an entry found no room: the queue is in error for good.
  enum Overrun : std::uint32_t { no_overrun, lost_entry, reported };
  std::atomic<std::uint32_t> overrun{no_overrun};
  Offset<Completion> entries;  // Changes under both locks.
  bool timestamps = false;     // Constant, as is the next.
  bool ignores_overrun = false;
  std::atomic<bool> is_solicited{false};    // The entry that is being added.
  std::atomic<std::uint64_t> completes{0};  // The flag's offset, of the receive that it ends.
  // Of consumers.
  alignas(64) SpinLock taking;  // After `lock`, where both are taken.
  std::atomic<std::uint64_t> consumed{0};

  /// The number of the first entry of the next lap: never that of the lap before.
  static std::uint32_t generation_of(std::uint64_t number, std::uint64_t capacity) {
    return static_cast<std::uint32_t>((number | (capacity - 1)) + 1);
  }
  /// Under `lock`: what a producer that was killed had added is there.
  void finish_last(std::byte* arena) {
    const std::uint64_t end = produced.load(std::memory_order_relaxed);
    if (finished.load(std::memory_order_relaxed) != end) recover(arena, end);
  }
  void finish(std::byte* arena) {
    const std::lock_guard guard(lock);
    finish_last(arena);
  }

  enum class Added : std::uint8_t { no_event, event_due, overrun_now };
  /// Adds an entry; `arena` is where the ring's arena is mapped. What armed the ring is answered by
  /// it: the caller tells the channel. `overrun_now`: there is no room, or there once was none.
  /// `holds`, in the arena too, of the receive request that ends with the entry: it is false in the
  /// very instant in which the entry is there.
  Added add(std::byte* arena, const Completion& entry, bool solicited,
            std::atomic<bool>* holds = nullptr);
  /// The place of the next entry is fetched, to be written soon. A hint.
  void prefetch_next(std::byte* arena) const {
    const std::uint64_t number = produced.load(std::memory_order_relaxed);
    __builtin_prefetch(arena + entries.value + (number & (capacity - 1)) * sizeof(Completion), 1);
  }

 private:
  void finish_entry(std::byte* arena, std::uint64_t end);
  void recover(std::byte* arena, std::uint64_t end);  // `finish_entry`, out of the way of requests.
  bool make_room(std::uint64_t number);
};

/// Whether an entry answers the request for notification.
inline bool triggers_event(std::uint32_t armed, CompletionStatus status, bool solicited) {
  if (armed == CompletionRing::not_armed || armed == CompletionRing::notifying) return false;
  return armed == CompletionRing::any || solicited || status != CompletionStatus::success;
}

/// May be done twice: who does it may be killed as well. Each store is a release, so that they are
/// seen in this order.
VERBATIM_ALWAYS_INLINE void CompletionRing::finish_entry(std::byte* arena, std::uint64_t end) {
  auto& last = reinterpret_cast<Completion*>(arena + entries.value)[(end - 1) & (capacity - 1)];
  if (const std::uint64_t flag = completes.load(std::memory_order_relaxed); flag != 0) {
    reinterpret_cast<std::atomic<bool>*>(arena + flag)->store(false, std::memory_order_release);
  }
  // Before the consumer may arm again, having seen the entry.
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
                                                                 std::atomic<bool>* holds) {
  const TimeNs now = timestamps ? monotonic_now() : 0;
  const std::lock_guard guard(lock);
  if (overrun.load(std::memory_order_relaxed) != no_overrun) return Added::overrun_now;
  const bool was_notifying = armed.load(std::memory_order_relaxed) == notifying;
  finish_last(arena);
  const std::uint64_t number = produced.load(std::memory_order_relaxed);
  if (number >= room_until && !make_room(number)) return Added::overrun_now;
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

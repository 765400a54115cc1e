#pragma once

#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>

#include "adapter/queues/async_event.h"
#include "adapter/queues/event_queue.h"
#include "arena/arena.h"
#include "arena/completion_ring.h"
#include "base/always_inline.h"
#include "base/os/fence.h"
#include "base/os/spin_lock.h"
#include "base/time.h"

/// Completion queues (IBA volume 1, section 11.4.2) and the channels that tell of them.
namespace verbatim::adapter {

using namespace arena;

class CompletionQueue;

inline constexpr std::uint32_t kCompletionsMax = 1 << 22;  // Entries of one completion queue.

/// Where `ibv_get_cq_event` waits: it names completion queues that were armed and got an entry.
using CompletionChannel = EventQueue<CompletionQueue*>;

/// `ibv_get_cq_event`: the channel's next event, counted as delivered in the same step, so that
/// destroying the queue meanwhile either drops the event or waits for its acknowledgement. EAGAIN,
/// EINTR.
Result<CompletionQueue*> take_completion_event(CompletionChannel& channel);

struct CompletionQueueOptions {
  std::uint32_t capacity = 0;            // Entries at least: 1 to kCompletionsMax.
  CompletionChannel* channel = nullptr;  // May be null; outlives the queue.
  AsyncEvents* events = nullptr;         // Where its error goes; may be null; outlives the queue.
  void* owner = nullptr;                 // The drop-in's object.
  bool timestamps = false;               // Entries tell when they came.
  bool ignores_overrun = false;          // A full queue loses its oldest entry instead of failing.
};

class CompletionQueue {
 public:
  static Result<std::unique_ptr<CompletionQueue>> create(Arena& arena,
                                                         const CompletionQueueOptions& options);
  /// Drops undelivered events, then waits until delivered ones are acknowledged.
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  std::uint32_t capacity() const { return ring_->capacity; }
  /// A hint where the ring's lock is not held.
  bool empty() const {
    const auto [entry, generation] = oldest();
    return racy_load(entry->generation) != generation;
  }
  /// It is empty, and yet an entry was counted: its producer is about to finish it, or was killed.
  bool lacks_entry() const {
    return empty() && ring_->produced.load(std::memory_order_relaxed) !=
                          ring_->consumed.load(std::memory_order_relaxed);
  }
  /// What a producer that was killed had added is there afterwards, and the channel knows of it.
  void recover();
  /// Makes room for `capacity` entries at least and keeps those that are there. EINVAL for fewer
  /// than those.
  Result<void> resize(std::uint32_t capacity);
  /// Takes at most `most` entries, oldest first: `use(entry)` for each, under the ring's lock. A
  /// queue that was overrun gives what it has and then nothing.
  template <typename Use>
  std::size_t poll(std::size_t most, Use use) {
    const std::lock_guard guard(ring_->taking);
    std::size_t taken = 0;
    for (const Completion* entry = nullptr; taken < most && (entry = next()) != nullptr; ++taken) {
      use(*entry);
      ring_->consumed.store(ring_->consumed.load(std::memory_order_relaxed) + 1,
                            std::memory_order_release);
    }
    return taken;
  }
  std::size_t poll(std::span<Completion> out) {
    std::size_t taken = 0;
    return poll(out.size(), [&](const Completion& entry) { out[taken++] = entry; });
  }
  /// Adds an entry; if armed and it fits (`solicited` or an error for solicited-only arming),
  /// disarms and tells the channel. False when there is no room or there once was none: the queue
  /// is overrun, which IBV_EVENT_CQ_ERR says once.
  bool push(const Completion& entry, bool solicited);
  /// The queue pair begins anew: the entries of its former life go, as a card's driver takes them
  /// out.
  void forget(Qpn qpn);
  /// `ibv_req_notify_cq`: the next entry (or the next solicited one) tells the channel once.
  /// Entries already there do not. Asking for solicited ones only does not take back an earlier
  /// request for any (IBA 11.4.2.2).
  void arm(bool solicited_only);
  bool armed() const {
    const std::uint32_t now = ring_->armed.load(std::memory_order_relaxed);
    return now == CompletionRing::solicited_only || now == CompletionRing::any;
  }

  /// For peers, and what is to be done for them here: the channel hears of an entry that was armed
  /// for, once, and the program of an overrun.
  Offset<CompletionRing> ring() const { return ring_offset_; }
  void notify_channel();
  void report_overrun();

  CompletionChannel* channel() const { return channel_; }
  void* owner() const { return owner_; }  // The drop-in's object.

  void count_delivered_event();
  void acknowledge_events(unsigned count);

  std::atomic<std::uint32_t> users{
      0};  // Queue pairs that complete into it: destroying is EBUSY then.

 private:
  CompletionQueue() = default;
  /// The place of the oldest entry, and what its lap is when it is there.
  struct Oldest {
    Completion* entry;
    std::uint32_t generation;
  };
  Oldest oldest() const {
    const std::uint64_t number = ring_->consumed.load(std::memory_order_relaxed);
    const std::uint64_t mask = mask_.load(std::memory_order_relaxed);
    return {.entry = entries_.load(std::memory_order_relaxed) + (number & mask),
            .generation = CompletionRing::generation_of(number, mask + 1)};
  }
  /// The oldest entry, if there is one; under the lock.
  const Completion* next() const {
    const auto [entry, generation] = oldest();
    const bool is_there =
        std::atomic_ref(entry->generation).load(std::memory_order_acquire) == generation;
    return is_there ? entry : nullptr;
  }

  Arena* arena_ = nullptr;
  Offset<CompletionRing> ring_offset_;
  CompletionRing* ring_ = nullptr;
  std::mutex resizing_;  // One thread resizes; the ring's lock is not held while it allocates.
  // What the ring says, at hand; change under both its locks.
  std::atomic<Completion*> entries_{nullptr};
  std::atomic<std::uint64_t> mask_{0};
  CompletionChannel* channel_ = nullptr;
  AsyncEvents* events_ = nullptr;
  void* owner_ = nullptr;
  std::mutex events_lock_;
  std::condition_variable events_acknowledged_;
  std::uint64_t events_delivered_ = 0;
  std::uint64_t events_acked_ = 0;
};

// What each request does.
VERBATIM_ALWAYS_INLINE bool CompletionQueue::push(const Completion& entry, bool solicited) {
  const auto added = ring_->add(arena_->base(), entry, solicited);
  if (added == CompletionRing::Added::event_due) notify_channel();
  if (added == CompletionRing::Added::overrun_now) report_overrun();
  return added != CompletionRing::Added::overrun_now;
}

}  // namespace verbatim::adapter

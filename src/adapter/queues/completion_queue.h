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
#include <vector>

#include "adapter/progress/attention.h"
#include "adapter/queues/async_event.h"
#include "adapter/queues/event_queue.h"
#include "arena/arena.h"
#include "arena/completion_ring.h"
#include "base/always_inline.h"
#include "base/os/fence.h"
#include "base/os/spin_lock.h"
#include "base/time.h"

/// Completion queues (IBA volume 1, section 11.4.2) and completion channels.
namespace verbatim::adapter {

using namespace arena;

class CompletionQueue;

inline constexpr std::uint32_t kCompletionsMax = 1 << 22;  // Entries in one completion queue.

/// `ibv_get_cq_event` waits here: contains armed completion queues that have got an entry.
using CompletionChannel = EventQueue<CompletionQueue*>;

/// `ibv_get_cq_event`: takes the channel's next event and counts it as delivered in the same step,
/// so that destroying the queue meanwhile either drops the event or waits for its acknowledgement.
/// EAGAIN, EINTR.
Result<CompletionQueue*> take_completion_event(CompletionChannel& channel);

struct CompletionQueueOptions {
  std::uint32_t capacity = 0;            // At least; 1 to kCompletionsMax.
  CompletionChannel* channel = nullptr;  // May be null; outlives the queue.
  AsyncEvents* events = nullptr;         // For its error event; may be null; outlives the queue.
  const Attention* attention = nullptr;  // As `events`.
  void* owner = nullptr;                 // The drop-in's object.
  bool timestamps = false;               // Entries have the time of their arrival.
  bool ignores_overrun = false;          // A full queue drops its oldest entry instead of failing.
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
  /// Entries below this number were polled, or lost to a full queue that ignores overruns. An entry
  /// keeps the number that `push` gave it.
  std::uint64_t polled() const {
    const std::uint64_t consumed = ring_->consumed.load(std::memory_order_acquire);
    if (consumed >= moved_until_.load(std::memory_order_acquire)) return consumed;
    return number_of_oldest();
  }
  /// A hint unless the ring's lock is held.
  bool empty() const {
    const auto [entry, generation] = oldest();
    return racy_load(entry->generation) != generation;
  }
  /// Returns true if an entry was counted but is not yet valid: its producer is still writing, or
  /// was killed.
  bool lacks_entry() const {
    return empty() && ring_->produced.load(std::memory_order_relaxed) !=
                          ring_->consumed.load(std::memory_order_relaxed);
  }
  /// Publishes an entry whose producer was killed, and pushes the channel event if one is due.
  void recover();
  /// Makes room for at least `capacity` entries and keeps the existing ones. EINVAL if there are
  /// more of those.
  Result<void> resize(std::uint32_t capacity);
  /// Takes at most `most` entries, oldest first: calls `use(entry)` for each under the ring's lock.
  /// A queue that was overrun returns its entries and then no more.
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
  /// Adds an entry. If the queue is armed for it (for solicited entries: `solicited` or an error),
  /// disarms it and notifies the channel. Returns false if there is or was no room: the queue is
  /// overrun, and IBV_EVENT_CQ_ERR is raised once. `number` gets the entry's, counted from 0.
  bool push(const Completion& entry, bool solicited, std::uint64_t* number = nullptr);
  /// Removes the entries of queue pair `qpn`, which goes to RESET (mlx5_cq_clean does the same).
  void forget(Qpn qpn);
  /// `ibv_req_notify_cq`: the next entry (or the next solicited one) notifies the channel once.
  /// Existing entries do not. A request for solicited entries does not cancel an earlier one for
  /// any (IBA 11.4.2.2).
  void arm(bool solicited_only);
  bool armed() const {
    const std::uint32_t now = ring_->armed.load(std::memory_order_relaxed);
    return now == CompletionRing::solicited_only || now == CompletionRing::any;
  }

  /// ring(): offset of the ring, for peers. The next two act once: pushing the channel event of an
  /// entry that triggered one, and raising IBV_EVENT_CQ_ERR after an overrun.
  Offset<CompletionRing> ring() const { return ring_offset_; }
  void notify_channel();
  void report_overrun();

  CompletionChannel* channel() const { return channel_; }
  void* owner() const { return owner_; }  // The drop-in's object.

  void count_delivered_event();
  void acknowledge_events(unsigned count);

  std::atomic<std::uint32_t> users{0};  // Queue pairs that use it; EBUSY to destroy it meanwhile.

 private:
  CompletionQueue() = default;
  /// Location of the oldest entry, and the generation that makes it valid.
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
  /// Returns the oldest entry, if there is one. Requires the lock.
  const Completion* next() const {
    const auto [entry, generation] = oldest();
    const bool is_there =
        std::atomic_ref(entry->generation).load(std::memory_order_acquire) == generation;
    return is_there ? entry : nullptr;
  }

  std::uint64_t number_of_oldest() const;
  /// Returns the number that the entry at this place of the ring had when it was pushed. Requires
  /// the lock.
  std::uint64_t number_at(std::uint64_t place) const {
    const std::uint64_t end = moved_until_.load(std::memory_order_relaxed);
    return place < end ? moved_[end - 1 - place] : place;
  }

  Arena* arena_ = nullptr;
  Offset<CompletionRing> ring_offset_;
  CompletionRing* ring_ = nullptr;
  // One thread resizes or forgets at a time; the ring's lock is not held while it allocates.
  std::mutex resizing_;
  // Copies of the ring's `entries` and `capacity - 1`. Written under both ring locks.
  std::atomic<Completion*> entries_{nullptr};
  std::atomic<std::uint64_t> mask_{0};
  // `forget` has moved entries up, to the place before this one. Their numbers, newest first.
  // Written under both ring locks.
  std::atomic<std::uint64_t> moved_until_{0};
  std::vector<std::uint64_t> moved_;
  CompletionChannel* channel_ = nullptr;
  AsyncEvents* events_ = nullptr;
  const Attention* attention_ = nullptr;
  void* owner_ = nullptr;
  std::mutex events_lock_;
  std::condition_variable events_acknowledged_;
  std::uint64_t events_delivered_ = 0;
  std::uint64_t events_acked_ = 0;
};

// Inlined: each request calls these.
VERBATIM_ALWAYS_INLINE bool CompletionQueue::push(const Completion& entry, bool solicited,
                                                  std::uint64_t* number) {
  const auto added = ring_->add(arena_->base(), entry, solicited, nullptr, number);
  if (added == CompletionRing::Added::event_due) notify_channel();
  if (added == CompletionRing::Added::overrun_now) report_overrun();
  return added != CompletionRing::Added::overrun_now;
}

}  // namespace verbatim::adapter

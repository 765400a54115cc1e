#include "adapter/queues/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/time.h"

namespace verbatim::adapter {
namespace {

std::size_t entries_bytes(std::uint64_t capacity) { return capacity * sizeof(Completion); }

/// How many bytes of the entries may have been written: before the ring begins again, those that
/// were added, and one that a killed peer has not finished.
std::size_t written_bytes(const CompletionRing& ring, std::uint64_t capacity) {
  const std::uint64_t added = ring.produced.load(std::memory_order_acquire);
  return entries_bytes(std::min(added + 1, capacity));
}

Result<void> check_capacity(std::uint32_t capacity) {
  if (capacity != 0 && capacity <= kCompletionsMax) return {};
  return refuse(
      EINVAL, fmt::format("{} entries asked for; 1 to {} are possible", capacity, kCompletionsMax));
}

}  // namespace

Result<CompletionQueue*> take_completion_event(CompletionChannel& channel) {
  return channel.wait([](CompletionQueue* queue) { queue->count_delivered_event(); });
}

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(
    Arena& arena, const CompletionQueueOptions& options) {
  if (auto possible = check_capacity(options.capacity); !possible) {
    return std::unexpected(possible.error());
  }
  const std::uint32_t rounded = std::bit_ceil(options.capacity);
  const auto ring = arena.allocate(sizeof(CompletionRing));
  if (!ring) return std::unexpected(ring.error());
  const auto entries = arena.allocate(entries_bytes(rounded));
  if (!entries) {
    arena.free(*ring, sizeof(CompletionRing));
    return std::unexpected(entries.error());
  }
  std::unique_ptr<CompletionQueue> queue(new CompletionQueue);
  queue->arena_ = &arena;
  queue->ring_offset_.value = ring->value;
  queue->ring_ = new (arena.at(*ring)) CompletionRing;
  queue->ring_->entries.value = entries->value;
  queue->ring_->capacity = rounded;
  queue->ring_->timestamps = options.timestamps;
  queue->ring_->ignores_overrun = options.ignores_overrun;
  queue->entries_ = arena.at(queue->ring_->entries);
  queue->mask_ = rounded - 1;
  queue->channel_ = options.channel;
  queue->events_ = options.events;
  queue->attention_ = options.attention;
  queue->owner_ = options.owner;
  return queue;
}

CompletionQueue::~CompletionQueue() {
  if (channel_ != nullptr) {
    channel_->remove_if([this](const CompletionQueue* queue) { return queue == this; });
  }
  {
    std::unique_lock guard(events_lock_);
    events_acknowledged_.wait(guard, [this] { return events_acked_ >= events_delivered_; });
  }
  arena_->free({ring_->entries.value}, entries_bytes(mask_ + 1), written_bytes(*ring_, mask_ + 1));
  arena_->free({ring_offset_.value}, sizeof(CompletionRing));
}

Result<void> CompletionQueue::resize(std::uint32_t capacity) {
  if (auto possible = check_capacity(capacity); !possible) return possible;
  const std::uint32_t rounded = std::bit_ceil(capacity);
  const std::lock_guard resizing(resizing_);
  const auto entries = arena_->allocate(entries_bytes(rounded));
  if (!entries) return std::unexpected(entries.error());
  Offset<std::byte> unused{entries->value};
  std::uint64_t unused_capacity = rounded;
  std::uint64_t there = 0;
  {
    const std::scoped_lock guard(ring_->lock, ring_->taking);
    ring_->finish_last(arena_->base());
    const std::uint64_t consumed = ring_->consumed.load(std::memory_order_relaxed);
    const std::uint64_t produced = ring_->produced.load(std::memory_order_relaxed);
    there = produced - consumed;
    if (there <= capacity) {
      Completion* const to = arena_->at(Offset<Completion>{entries->value});
      for (auto i = consumed; i != produced; ++i) {
        to[i & (rounded - 1)] = entries_[i & mask_];
        to[i & (rounded - 1)].generation = CompletionRing::generation_of(i, rounded);
      }
      unused.value = std::exchange(ring_->entries.value, entries->value);
      unused_capacity = std::exchange(ring_->capacity, rounded);
      ring_->room_until = consumed + rounded;
      entries_ = to;
      mask_ = rounded - 1;
    }
  }
  arena_->free(unused, entries_bytes(unused_capacity));
  if (there <= capacity) return {};
  return refuse(EINVAL, fmt::format("{} entries asked for; {} are in the queue", capacity, there));
}

void CompletionQueue::recover() {
  ring_->finish(arena_->base());
  notify_channel();
}

void CompletionQueue::notify_channel() {
  std::uint32_t expected = CompletionRing::notifying;
  const bool is_due = ring_->armed.compare_exchange_strong(expected, CompletionRing::not_armed,
                                                           std::memory_order_acq_rel);
  if (!is_due || channel_ == nullptr) return;
  if (attention_ == nullptr || !attention_->is_here()) channel_->push(this);
}

std::uint64_t CompletionQueue::number_of_oldest() const {
  const std::lock_guard guard(ring_->taking);
  return number_at(ring_->consumed.load(std::memory_order_relaxed));
}

void CompletionQueue::forget(Qpn qpn) {
  const std::lock_guard resizing(resizing_);
  if (ring_->produced.load(std::memory_order_acquire) ==
      ring_->consumed.load(std::memory_order_acquire)) {
    return;
  }
  std::vector<std::uint64_t> numbers;
  numbers.reserve(capacity());
  const std::scoped_lock guard(ring_->lock, ring_->taking);
  ring_->finish_last(arena_->base());
  const std::uint64_t consumed = ring_->consumed.load(std::memory_order_relaxed);
  const std::uint64_t produced = ring_->produced.load(std::memory_order_relaxed);
  std::uint64_t kept = produced;  // The remaining entries move up to the newest.
  for (std::uint64_t i = produced; i != consumed; --i) {
    const Completion& entry = entries_[(i - 1) & mask_];
    if (entry.qpn == qpn.value()) continue;
    numbers.push_back(number_at(i - 1));
    --kept;
    entries_[kept & mask_] = entry;
    entries_[kept & mask_].generation = CompletionRing::generation_of(kept, ring_->capacity);
  }
  moved_.swap(numbers);
  moved_until_.store(produced, std::memory_order_release);
  ring_->consumed.store(kept, std::memory_order_release);
}

void CompletionQueue::report_overrun() {
  std::uint32_t expected = CompletionRing::lost_entry;
  const bool first = ring_->overrun.compare_exchange_strong(expected, CompletionRing::reported,
                                                            std::memory_order_relaxed);
  if (first && events_ != nullptr) events_->push({AsyncEventType::cq_error, owner_});
}

/// Takes the producers' lock: an entry added before is found by the poll that follows; one added
/// later sees the queue armed. So a program that arms and then polls misses nothing.
void CompletionQueue::arm(bool solicited_only) {
  std::uint32_t before = CompletionRing::any;
  {
    const std::lock_guard guard(ring_->lock);
    if (ring_->armed.load(std::memory_order_relaxed) == CompletionRing::any) return;
    before =
        ring_->armed.exchange(solicited_only ? CompletionRing::solicited_only : CompletionRing::any,
                              std::memory_order_acq_rel);
  }
  // The earlier event was not pushed yet.
  if (before == CompletionRing::notifying && channel_ != nullptr) channel_->push(this);
}

void CompletionQueue::count_delivered_event() {
  const std::lock_guard guard(events_lock_);
  ++events_delivered_;
}

void CompletionQueue::acknowledge_events(unsigned count) {
  const std::lock_guard guard(events_lock_);
  events_acked_ += count;
  // Under the lock, so that the destructor does not continue while this thread uses the object.
  if (events_acked_ >= events_delivered_) events_acknowledged_.notify_all();
}

}  // namespace verbatim::adapter

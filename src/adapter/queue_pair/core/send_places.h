#pragma once

#include <bit>
#include <cstdint>
#include <memory_resource>

#include "adapter/queue_pair/core/raw_array.h"
#include "adapter/queues/completion_queue.h"

namespace verbatim::adapter {

/// Which places of a send queue are taken. A request keeps its place until the program has polled
/// its completion or a later one, as at every card: so a program that posts until the queue is full
/// does not overrun a completion queue that is as large. Requires the queue pair's lock.
class SendPlaces {
 public:
  SendPlaces(std::uint32_t capacity, std::pmr::memory_resource* memory)
      : capacity_(capacity),
        limit_(capacity),
        mask_(std::bit_ceil(capacity) - 1),
        entries_(std::size_t{mask_} + 1, memory) {}

  /// Looks at the completion queue only if the places seem to be used up.
  bool has_room(std::size_t count, const CompletionQueue& cq) {
    return taken_ + count <= limit_ || has_room_after_polls(count, cq.polled());
  }
  void take() { ++taken_; }
  /// The oldest request that has not completed does so: with the completion queue's entry of this
  /// number, or without one.
  void complete(std::uint64_t entry = kNoEntry) { entries_[completed_++ & mask_] = entry; }
  void clear() {
    taken_ = completed_ = 0;
    limit_ = capacity_;
  }

 private:
  static constexpr std::uint64_t kNoEntry = ~std::uint64_t{0};

  /// `polled`: entries below it are. Usually the newest one is, so all places are free.
  [[gnu::noinline]] bool has_room_after_polls(std::size_t count, std::uint64_t polled) {
    const auto entry_of = [this](std::uint64_t request) { return entries_[request & mask_]; };
    std::uint64_t free = limit_ - capacity_;
    if (free != completed_ && entry_of(completed_ - 1) < polled) free = completed_;
    for (std::uint64_t next = free; next != completed_; ++next) {
      if (entry_of(next) == kNoEntry) continue;
      if (entry_of(next) >= polled) break;
      free = next + 1;
    }
    limit_ = free + capacity_;
    return taken_ + count <= limit_;
  }

  std::uint32_t capacity_;
  // Requests since RESET: posted; completed; and that may be posted: those whose places are free
  // again, and the capacity.
  std::uint64_t taken_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t limit_;
  std::uint64_t mask_;
  RawArray<std::uint64_t> entries_;  // Of the completed ones whose places are taken.
};

}  // namespace verbatim::adapter

#pragma once

#include <bit>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "adapter/queues/completion_queue.h"

namespace verbatim::adapter {

/// Which places of a send queue are taken. A request keeps its place until the program has polled
/// its completion or a later one, as at every card: so a program that posts until the queue is full
/// does not overrun a completion queue that is as large. Requires the queue pair's lock.
class SendPlaces {
 public:
  SendPlaces(std::uint32_t capacity, std::pmr::memory_resource* memory)
      : capacity_(capacity), completions_(std::bit_ceil(capacity), memory) {}

  /// Looks at the completion queue only if the places seem to be used up.
  bool has_room(std::size_t count, const CompletionQueue& cq) {
    return taken_ - free_ + count <= capacity_ || has_room_after_polls(count, cq.polled());
  }
  void take() { ++taken_; }
  /// The oldest request that has not completed does so without a completion.
  void complete() { ++completed_; }
  /// The same with one: the completion queue's entry of this number.
  void complete(std::uint64_t entry) {
    completions_[newest_++ & (completions_.size() - 1)] = {++completed_, entry};
  }
  void clear() { taken_ = free_ = completed_ = newest_ = oldest_ = 0; }

 private:
  struct Completed {
    std::uint64_t requests = 0;  // Those before it, and the request itself.
    std::uint64_t entry = 0;
  };
  bool has_room_after_polls(std::size_t count, std::uint64_t polled) {
    for (; oldest_ != newest_; ++oldest_) {
      const Completed& next = completions_[oldest_ & (completions_.size() - 1)];
      if (next.entry >= polled) break;
      free_ = next.requests;
    }
    return taken_ - free_ + count <= capacity_;
  }

  std::uint32_t capacity_;
  // Requests since RESET: posted, completed, and of those the ones whose places are free again.
  std::uint64_t taken_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t free_ = 0;
  // Completions that were not polled when `has_room` looked: a ring.
  std::uint64_t newest_ = 0;
  std::uint64_t oldest_ = 0;
  std::pmr::vector<Completed> completions_;
};

}  // namespace verbatim::adapter

#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "adapter/queue_pair/queue_pair.h"

namespace verbatim::dropin {

/// The requests that a program builds between `ibv_wr_start` and `ibv_wr_complete`. They are posted
/// at the end, all or none. The batch's lock is held from start to end, so that threads take turns;
/// the queue pair's own lock is not, so that building delays nothing else.
///
/// The first error is kept; later calls are ignored.
class SendBatch {
 public:
  /// `operations`: bit `1 << Operation` for each that the program asked for.
  SendBatch(adapter::QueuePair& queue_pair, std::uint64_t operations)
      : queue_pair_(queue_pair), operations_(operations) {
    // Reserves address space only: memory becomes resident as it is used, and never moves.
    const auto& most = queue_pair.options().capacity;
    works_.reserve(most.send_requests);
    // An ATOMIC WRITE has 8 bytes of data, whatever the queue pair's limits.
    segments_.reserve(std::size_t{most.send_requests} * std::max(most.send_segments, 1u));
    inline_bytes_.reserve(std::size_t{most.send_requests} *
                          std::max<std::size_t>(most.inline_bytes, sizeof(std::uint64_t)));
  }

  void start() {
    lock_.lock();
    works_.clear();
    segments_.clear();
    inline_bytes_.clear();
    code_ = 0;
    why_ = "";
  }
  void abort() { lock_.unlock(); }
  /// Posts the requests; returns 0 or the errno value of the first error.
  int complete();

  void add(const adapter::SendWork& work);
  /// Returns the request that was added last, to set more fields; null after an error.
  adapter::SendWork* last();
  void set_segments(std::span<const adapter::Segment> list);
  /// Makes room for `length` inline bytes of the last request; returns null after an error.
  std::byte* set_inline(std::size_t length);
  void fail(int code, const char* why);

 private:
  adapter::SendWork* last_without_data();

  adapter::QueuePair& queue_pair_;
  const std::uint64_t operations_;
  std::mutex lock_;  // Protects the members below.
  std::vector<adapter::SendWork> works_;
  std::vector<adapter::Segment> segments_;
  std::vector<std::byte> inline_bytes_;
  bool has_data_ = false;  // The last request has its data already.
  int code_ = 0;
  const char* why_ = "";
};

}  // namespace verbatim::dropin

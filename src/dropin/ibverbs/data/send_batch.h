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

/// The requests that a program builds between `ibv_wr_start` and `ibv_wr_complete`: nothing reaches
/// the queue pair before, and then all do or none. The lock is held from start to the end, so that
/// threads take turns; the queue pair's own is not, so that building holds nothing back.
///
/// The first thing that goes wrong is remembered; what follows is ignored.
class SendBatch {
 public:
  /// `operations`: bit `1 << Operation` for each that the program has asked for.
  SendBatch(adapter::QueuePair& queue_pair, std::uint64_t operations)
      : queue_pair_(queue_pair), operations_(operations) {
    // Reserved, not touched: memory becomes resident as far as it is used, and never moves.
    const auto& most = queue_pair.options().capacity;
    works_.reserve(most.send_requests);
    // An ATOMIC WRITE brings 8 bytes of its own, whatever the queue pair's limits.
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
  /// Posts what was built; 0 or the errno of what went wrong first.
  int complete();

  void add(const adapter::SendWork& work);
  /// The request that was added last, to say more of it; null where something has gone wrong.
  adapter::SendWork* last();
  void set_segments(std::span<const adapter::Segment> list);
  /// Makes room for `length` inline bytes of the last request; null where something has gone wrong.
  std::byte* set_inline(std::size_t length);
  void fail(int code, const char* why);

 private:
  adapter::SendWork* last_without_data();

  adapter::QueuePair& queue_pair_;
  const std::uint64_t operations_;
  std::mutex lock_;  // Guards what follows.
  std::vector<adapter::SendWork> works_;
  std::vector<adapter::Segment> segments_;
  std::vector<std::byte> inline_bytes_;
  bool has_data_ = false;  // The last request's memory is named.
  int code_ = 0;
  const char* why_ = "";
};

}  // namespace verbatim::dropin

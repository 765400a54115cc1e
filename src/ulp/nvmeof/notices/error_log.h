#pragma once

#include <cstdint>
#include <deque>

#include "ulp/nvmeof/wire/log_pages.h"

namespace verbatim::ulp::nvmeof {

/// Commands of a controller's queues that were refused: what its error log page tells. Its last
/// ones, newest first.
class ErrorLog {
 public:
  static constexpr std::size_t kEntriesMax = 128;  // As many as Linux's target has.

  void add(ErrorEntry entry) {
    entry.count = ++count_;
    entries_.push_front(entry);
    if (entries_.size() > kEntriesMax) entries_.pop_back();
  }
  std::uint64_t count() const { return count_; }
  const std::deque<ErrorEntry>& entries() const { return entries_; }

 private:
  std::uint64_t count_ = 0;
  std::deque<ErrorEntry> entries_;
};

}  // namespace verbatim::ulp::nvmeof

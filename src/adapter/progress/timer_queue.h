#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <queue>
#include <vector>

#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

/// Deadlines of tasks. Lazy: a task is added only for a deadline before the one that it already has
/// here, so acknowledgements that move a deadline later cost nothing. When an entry is due, the
/// task is asked for its current deadline. Any thread.
class TimerQueue {
 public:
  struct Entry {
    TimeNs at = kNever;
    Qpn task;
    friend bool operator>(const Entry& a, const Entry& b) { return a.at > b.at; }
  };

  /// Returns true if the new entry is the earliest: a thread that sleeps until the earliest must be
  /// woken.
  bool add(Entry entry) {
    const std::lock_guard guard(lock_);
    entries_.push(entry);
    if (entry.at >= earliest_.load(std::memory_order_relaxed)) return false;
    earliest_.store(entry.at, std::memory_order_seq_cst);
    return true;
  }
  /// Takes the entries that are due; appends each of their tasks once.
  void take_due(TimeNs now, std::vector<Qpn>& out) {
    if (now < earliest()) return;
    const std::lock_guard guard(lock_);
    for (; !entries_.empty() && entries_.top().at <= now; entries_.pop()) {
      if (std::ranges::find(out, entries_.top().task) == out.end())
        out.push_back(entries_.top().task);
    }
    earliest_.store(entries_.empty() ? kNever : entries_.top().at, std::memory_order_seq_cst);
  }
  /// A hint, read without the lock: a thread that reads an old value reads again one pass later.
  TimeNs earliest() const { return earliest_.load(std::memory_order_seq_cst); }

 private:
  std::mutex lock_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::atomic<TimeNs> earliest_{kNever};
};

}  // namespace verbatim::adapter

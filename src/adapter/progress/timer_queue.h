#pragma once

#include <atomic>
#include <mutex>
#include <queue>
#include <vector>

#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

/// Deadlines of tasks. Lazy: a task enters only when its deadline comes before the one that it
/// already has here, so acknowledgements that move a deadline later cost nothing; when an entry
/// comes up, the task is asked for its true deadline. Any thread.
class TimerQueue {
 public:
  struct Entry {
    TimeNs at = kNever;
    Qpn task;
    friend bool operator>(const Entry& a, const Entry& b) { return a.at > b.at; }
  };

  /// True when the new entry is now the earliest: who sleeps until the earliest must be told.
  bool add(Entry entry) {
    const std::lock_guard guard(lock_);
    entries_.push(entry);
    if (entry.at >= earliest_.load(std::memory_order_relaxed)) return false;
    earliest_.store(entry.at, std::memory_order_seq_cst);
    return true;
  }
  /// Takes an entry that is due.
  bool take_due(TimeNs now, Entry& out) {
    if (now < earliest()) return false;
    const std::lock_guard guard(lock_);
    if (entries_.empty() || entries_.top().at > now) return false;
    out = entries_.top();
    entries_.pop();
    earliest_.store(entries_.empty() ? kNever : entries_.top().at, std::memory_order_seq_cst);
    return true;
  }
  /// A hint without the lock: whoever is misled looks again one turn later.
  TimeNs earliest() const { return earliest_.load(std::memory_order_seq_cst); }

 private:
  std::mutex lock_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::atomic<TimeNs> earliest_{kNever};
};

}  // namespace verbatim::adapter

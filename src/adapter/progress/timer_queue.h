#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <queue>
#include <utility>
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
  /// Takes the entries that are due into `out`: the earliest one of each task, earliest first.
  void take_due(TimeNs now, std::vector<Entry>& out) {
    out.clear();
    if (now < earliest()) return;
    {
      const std::lock_guard guard(lock_);
      for (; !entries_.empty() && entries_.top().at <= now; entries_.pop()) {
        out.push_back(entries_.top());
      }
      earliest_.store(entries_.empty() ? kNever : entries_.top().at, std::memory_order_seq_cst);
    }
    if (out.size() < 2) return;
    const auto by_task = [](const Entry& one) { return std::pair(one.task.value(), one.at); };
    std::ranges::sort(out, {}, by_task);
    const auto repeated = std::ranges::unique(out, {}, &Entry::task);
    out.erase(repeated.begin(), repeated.end());
    std::ranges::sort(out, {}, &Entry::at);
  }
  /// A hint, read without the lock: a thread that reads an old value reads again one pass later.
  TimeNs earliest() const { return earliest_.load(std::memory_order_seq_cst); }

 private:
  std::mutex lock_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::atomic<TimeNs> earliest_{kNever};
};

}  // namespace verbatim::adapter

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace verbatim::fabric {

/// Deadlines by the number of who waits.
class Deadlines {
 public:
  /// kNever: none any more.
  void set(std::uint32_t waiter, TimeNs deadline) {
    const auto found = times_.find(waiter);
    if (found != times_.end()) {
      order_.erase({found->second, waiter});
      times_.erase(found);
    }
    if (deadline == kNever) return;
    times_.emplace(waiter, deadline);
    order_.emplace(deadline, waiter);
  }

  TimeNs first() const { return order_.empty() ? kNever : order_.begin()->first; }

  /// Who is due first, if it is due; it no longer waits.
  std::optional<std::uint32_t> take_due(TimeNs now) {
    if (first() > now || order_.empty()) return std::nullopt;
    const std::uint32_t waiter = order_.begin()->second;
    set(waiter, kNever);
    return waiter;
  }

 private:
  std::set<std::pair<TimeNs, std::uint32_t>> order_;
  std::unordered_map<std::uint32_t, TimeNs> times_;
};

}  // namespace verbatim::fabric

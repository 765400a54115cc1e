#pragma once

#include <set>
#include <utility>

#include "base/time.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// When each connection wants to be looked at next: at most one time each.
class Timers {
 public:
  /// `at` is the connection's own note of the time that was set; kNever for none.
  void set(ConnectionId id, TimeNs& at, TimeNs new_at) {
    if (at != kNever) due_.erase({at, id});
    at = new_at;
    if (at != kNever) due_.insert({at, id});
  }
  TimeNs deadline() const { return due_.empty() ? kNever : due_.begin()->first; }
  /// The connection whose time came first. There is one.
  ConnectionId first() const { return due_.begin()->second; }

 private:
  std::set<std::pair<TimeNs, ConnectionId>> due_;
};

}  // namespace verbatim::cm

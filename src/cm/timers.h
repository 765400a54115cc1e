#pragma once

#include <set>
#include <utility>

#include "base/time.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// The next deadline of each connection, at most one each.
class Timers {
 public:
  /// `at` is the connection's copy of its deadline; kNever: none.
  void set(ConnectionId id, TimeNs& at, TimeNs new_at) {
    if (at != kNever) due_.erase({at, id});
    at = new_at;
    if (at != kNever) due_.insert({at, id});
  }
  TimeNs deadline() const { return due_.empty() ? kNever : due_.begin()->first; }
  /// Returns the connection with the earliest deadline. Requires that there is one.
  ConnectionId first() const { return due_.begin()->second; }

 private:
  std::set<std::pair<TimeNs, ConnectionId>> due_;
};

}  // namespace verbatim::cm

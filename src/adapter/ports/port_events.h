#pragma once

#include <mutex>
#include <unordered_set>
#include <vector>

#include "adapter/queues/async_event.h"
#include "port/port.h"

namespace verbatim::adapter {

/// Tells of the ports' changes: one queue of events for each opened context. Thread-safe.
class PortEvents {
 public:
  /// The port has its new state before any listener gets an event.
  void change(port::Port& port, port::PortState next);
  /// Of what the port's state does not hold: the subnet manager's settings.
  void tell(const port::Port& port, AsyncEventType type);
  void add_listener(AsyncEvents& events);
  /// Nothing is pushed into it any more.
  void remove_listener(AsyncEvents& events);

 private:
  void push(const port::Port& port, AsyncEventType type);

  std::mutex lock_;  // Guards listeners_, and orders changes.
  std::unordered_set<AsyncEvents*> listeners_;
};

/// What `ibv_get_async_event` shall tell of a change, in this order.
std::vector<AsyncEventType> events_between(const port::PortState& before,
                                           const port::PortState& now);

}  // namespace verbatim::adapter

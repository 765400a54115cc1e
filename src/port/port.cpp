#include "port/port.h"

namespace verbatim::adapter {

std::vector<AsyncEventType> events_between(const PortState& before, const PortState& now) {
  std::vector<AsyncEventType> events;
  if (before.is_active && !now.is_active) events.push_back(AsyncEventType::port_error);
  if (before.gids != now.gids) events.push_back(AsyncEventType::gid_change);
  if (!before.is_active && now.is_active) events.push_back(AsyncEventType::port_active);
  if (before.is_present && !now.is_present) events.push_back(AsyncEventType::device_fatal);
  return events;
}

void Port::change(PortState next) {
  const std::lock_guard guard(lock_);
  const PortState before = state_.exchange(next, std::memory_order_relaxed);
  for (const AsyncEventType type : events_between(before, next)) {
    for (AsyncEvents* listener : listeners_) listener->push({type});
  }
}

void Port::add_listener(AsyncEvents& events) {
  const std::lock_guard guard(lock_);
  listeners_.insert(&events);
}

void Port::remove_listener(AsyncEvents& events) {
  const std::lock_guard guard(lock_);
  listeners_.erase(&events);
}

}  // namespace verbatim::adapter

#include "adapter/ports/port_events.h"

namespace verbatim::adapter {

std::vector<AsyncEventType> events_between(const port::PortState& before,
                                           const port::PortState& now) {
  std::vector<AsyncEventType> events;
  if (before.is_active && !now.is_active) events.push_back(AsyncEventType::port_error);
  if (before.gids != now.gids) events.push_back(AsyncEventType::gid_change);
  if (!before.is_active && now.is_active) events.push_back(AsyncEventType::port_active);
  if (before.is_present && !now.is_present) events.push_back(AsyncEventType::device_fatal);
  return events;
}

void PortEvents::change(port::Port& port, port::PortState next) {
  const std::lock_guard guard(lock_);
  const port::PortState before = port.set_state(next);
  for (const AsyncEventType type : events_between(before, next)) push(port, type);
}

void PortEvents::tell(const port::Port& port, AsyncEventType type) {
  const std::lock_guard guard(lock_);
  push(port, type);
}

void PortEvents::push(const port::Port& port, AsyncEventType type) {
  for (AsyncEvents* listener : listeners_) listener->push({.type = type, .port = port.number()});
}

void PortEvents::add_listener(AsyncEvents& events) {
  const std::lock_guard guard(lock_);
  listeners_.insert(&events);
}

void PortEvents::remove_listener(AsyncEvents& events) {
  const std::lock_guard guard(lock_);
  listeners_.erase(&events);
}

}  // namespace verbatim::adapter

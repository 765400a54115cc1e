#include "port/port.h"

#include <algorithm>
#include <utility>

namespace verbatim::adapter {

std::vector<AsyncEventType> events_between(const PortState& before, const PortState& now) {
  std::vector<AsyncEventType> events;
  if (before.is_active && !now.is_active) events.push_back(AsyncEventType::port_error);
  if (before.gids != now.gids) events.push_back(AsyncEventType::gid_change);
  if (!before.is_active && now.is_active) events.push_back(AsyncEventType::port_active);
  if (before.is_present && !now.is_present) events.push_back(AsyncEventType::device_fatal);
  return events;
}

void Port::add_gid(const GidEntry& entry, std::unique_ptr<link::Link> link) {
  add_gid(entry, *stacks_.emplace_back(std::make_unique<link::Stack>(std::move(link))));
}

void Port::add_gid(const GidEntry& entry, link::Stack& links) {
  links_[gids_.size()] = &links;  // Before any caller can use its index.
  gids_.push_back(entry);
}

link::Stack* Port::links_of(const SocketAddress& address) const {
  const auto gids = this->gids();
  const auto found = std::ranges::find(gids, address, &GidEntry::address);
  return found == gids.end() ? nullptr : links_[found - gids.begin()];
}

Result<port::Route> Port::route(std::size_t gid_index, const Path& path, Qpn destination,
                                std::optional<TimeNs> patience) const {
  link::Stack& from = links(gid_index);
  const auto hop = from.top().next_hop(path, destination, patience);
  if (!hop) return std::unexpected(hop.error());
  return port::Route(from, **hop, path);
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

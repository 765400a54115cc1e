#include "cm/ib/guard/strangers.h"

#include <algorithm>

namespace verbatim::cm {

void Strangers::add(ConnectionId id, ListenerId listener, const SocketAddress& source) {
  all_.push_back({id, listener, network_of(source_of(source))});
}

void Strangers::remove(ConnectionId id) {
  const auto found = std::ranges::find(all_, id, &Stranger::id);
  if (found != all_.end()) all_.erase(found);
}

std::optional<ConnectionId> Strangers::surplus(std::size_t room, ListenerId listener,
                                               const SocketAddress& source) const {
  const Source from = network_of(source_of(source));
  const auto is_like = [&](const Stranger& one) {
    return one.listener == listener && one.source == from;
  };
  const auto alike = static_cast<std::size_t>(std::ranges::count_if(all_, is_like));
  if (alike > 0 && alike >= room / 2) return std::ranges::find_if(all_, is_like)->id;
  return all_.size() >= room ? oldest() : std::nullopt;
}

std::optional<ConnectionId> Strangers::oldest() const {
  if (all_.empty()) return std::nullopt;
  return all_.front().id;
}

}  // namespace verbatim::cm

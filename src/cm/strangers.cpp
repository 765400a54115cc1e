#include "cm/strangers.h"

#include <algorithm>

namespace verbatim::cm {

Strangers::Source Strangers::source_of(const SocketAddress& address) {
  constexpr std::size_t kNetworkBytes = 8;
  constexpr std::uint8_t kGlobal = 0x20;  // 2000::/3 (RFC 4291, section 2.4).
  Source source = address.ipv6_bytes();
  if (address.is_ipv6() && (source[0] & 0xe0) == kGlobal) {
    std::fill(source.begin() + kNetworkBytes, source.end(), std::uint8_t{0});
  }
  return source;
}

void Strangers::add(ConnectionId id, ListenerId listener, const SocketAddress& source) {
  all_.push_back({id, listener, source_of(source)});
}

void Strangers::remove(ConnectionId id) {
  const auto found = std::ranges::find(all_, id, &Stranger::id);
  if (found != all_.end()) all_.erase(found);
}

std::optional<ConnectionId> Strangers::surplus(std::size_t room, ListenerId listener,
                                               const SocketAddress& source) const {
  const Source from = source_of(source);
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

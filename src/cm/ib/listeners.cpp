#include "cm/ib/listeners.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::cm {
namespace {

bool is_wildcard(const SocketAddress& address) {
  return address.is_ipv4() ? address.ipv4_bytes() == std::array<std::uint8_t, 4>{}
                           : address.ipv6_bytes() == std::array<std::uint8_t, 16>{};
}

/// The RDMA IP header has no scope, so addresses are compared without it.
bool names_the_same(const SocketAddress& a, const SocketAddress& b) {
  return a.family() == b.family() && a.ipv6_bytes() == b.ipv6_bytes();
}

bool is_same(const ListenAt& a, const ListenAt& b) {
  if (a.service != b.service || a.service_mask != b.service_mask || a.datagram != b.datagram) {
    return false;
  }
  if (a.address.empty() || b.address.empty()) {
    return a.address.empty() && b.address.empty() && a.gid == b.gid;
  }
  return same_ip(a.address, b.address);
}

/// Returns how specifically a listener matches; 0: not at all.
int fit(const ListenAt& where, const Wanted& wanted) {
  constexpr int kOther = 1;
  constexpr int kWildcard = 2;
  constexpr int kExact = 3;
  const std::uint64_t mask = where.service_mask;
  if (where.datagram != wanted.datagram) return 0;
  if ((raw(where.service) & mask) != (raw(wanted.service) & mask)) return 0;
  if (where.address.empty()) {
    if (!wanted.address.empty()) return 0;
    if (where.gid.is_zero()) return kWildcard;
    return where.gid == wanted.gid ? kExact : 0;
  }
  if (wanted.address.empty()) return 0;
  if (names_the_same(where.address, wanted.address)) return kExact;
  if (!is_wildcard(where.address)) return 0;
  if (where.address.family() == wanted.address.family()) return kWildcard;
  return where.both_families ? kOther : 0;
}

}  // namespace

Result<ListenerId> Listeners::add(const ListenAt& where) {
  if (entries_.size() >= kMax) return refuse(ENOMEM, "listen: too many listeners");
  if (std::ranges::any_of(entries_, [&](const Entry& e) { return is_same(e.where, where); })) {
    return refuse(EADDRINUSE,
                  fmt::format("listen: service {:#x} is listened to already", raw(where.service)));
  }
  const auto id = static_cast<ListenerId>(++last_id_);
  entries_.push_back({id, where});
  return id;
}

void Listeners::remove(ListenerId id) {
  std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; });
}

std::optional<ListenerId> Listeners::find(const Wanted& wanted) const {
  int best = 0;
  std::optional<ListenerId> found;
  for (const Entry& entry : entries_) {
    const int how_well = fit(entry.where, wanted);
    if (how_well > best) {
      best = how_well;
      found = entry.id;
    }
  }
  return found;
}

}  // namespace verbatim::cm

#include "ulp/nvmeof/subsystem.h"

#include <algorithm>

#include <fmt/format.h>

#include "ulp/engine/portals.h"
#include "ulp/nvmeof/wire/connect.h"

namespace verbatim::ulp::nvmeof {
namespace {

/// FNV-1a. Not secret: it makes names out of names.
std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

Subsystem::Subsystem(const std::string& nqn)
    : nqn_(nqn), serial_(fmt::format("{:020}", hash_of(nqn, 1))) {}

/// Base specification 1.4, section 7.9: "nqn.", a month, a domain in reverse, and a name of its
/// owner's.
Result<Subsystem> Subsystem::create(const std::string& nqn) {
  const bool is_nqn = nqn.starts_with("nqn.") && nqn.size() > 12 && nqn.size() <= kNqnMax &&
                      std::ranges::none_of(nqn, [](char c) { return c <= ' ' || c == '\x7f'; });
  if (!is_nqn || nqn == kDiscoveryNqn) {
    return refuse(EINVAL, fmt::format("'{}' is no NQN of a subsystem: write one as "
                                      "nqn.2026-01.com.example:disk, of at most {} bytes",
                                      nqn, kNqnMax));
  }
  return Subsystem(nqn);
}

Result<void> Subsystem::add(std::uint32_t id, const Namespace& space) {
  if (id == 0 || id > kNamespacesMax) {
    return refuse(EINVAL, fmt::format("namespace {}: ids are 1 to {}", id, kNamespacesMax));
  }
  if (!settings_.spaces.emplace(id, space).second)
    return refuse(EEXIST, fmt::format("{} has a namespace {} already", nqn_, id));
  make_reservations();
  return {};
}

/// They stay as long as the namespace can be reserved.
void Subsystem::make_reservations() {
  for (auto at = reservations_.begin(); at != reservations_.end();) {
    const auto space = settings_.spaces.find(at->first);
    const bool stays = space != settings_.spaces.end() && space->second.can_reserve;
    if (!stays) old_reservations_.push_back(std::move(at->second));
    at = stays ? std::next(at) : reservations_.erase(at);
  }
  for (auto& [id, space] : settings_.spaces) {
    if (!space.can_reserve) continue;
    auto& made = reservations_[id];
    if (made == nullptr) made = std::make_unique<Reservations>();
    space.reservations = made.get();
  }
}

std::optional<Namespace> Subsystem::find(std::uint32_t id) const {
  const auto found = settings_.spaces.find(id);
  return found == settings_.spaces.end() ? std::nullopt : std::optional(found->second);
}

void Subsystem::set(SubsystemSettings settings) {
  const auto before = std::exchange(settings_, std::move(settings));
  make_reservations();
  changed_spaces_.clear();
  for (const auto& [id, space] : before.spaces) {
    const auto now = settings_.spaces.find(id);
    if (now == settings_.spaces.end() || now->second != space) changed_spaces_.push_back(id);
  }
  for (const auto& [id, space] : settings_.spaces)
    if (!before.spaces.contains(id)) changed_spaces_.push_back(id);
  has_changed_access_ = before.access != settings_.access;
  if (has_changed_access_) ++access_changes_;
}

const PortAccess* Subsystem::access_at(const SocketAddress& own) const {
  const auto found = std::ranges::find_if(settings_.access, [&](const PortAccess& port) {
    return ulp::is_at(std::span(&port.portal, 1), own);
  });
  return found == settings_.access.end() ? nullptr : &*found;
}

AccessState Subsystem::state_of(const PortAccess* port, std::uint32_t group) {
  if (port == nullptr) return AccessState::optimized;
  const auto found = port->groups.find(group);
  // As Linux's target: a group that a port does not have is not reached by it.
  return found == port->groups.end() ? AccessState::inaccessible : found->second;
}

bool Subsystem::is_at(const SocketAddress& own) const { return ulp::is_at(settings_.portals, own); }

/// Version 8 of RFC 9562: bits of our own.
Uuid Subsystem::uuid_of(std::uint32_t id) const {
  const auto own = settings_.uuids.find(id);
  if (own != settings_.uuids.end()) return own->second;
  Uuid uuid{};
  store_be(&uuid[0], hash_of(nqn_, 2 + std::uint64_t{id} * 2));
  store_be(&uuid[8], hash_of(nqn_, 3 + std::uint64_t{id} * 2));
  uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x80};
  uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

}  // namespace verbatim::ulp::nvmeof

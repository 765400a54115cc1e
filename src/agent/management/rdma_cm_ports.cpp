#include "agent/management/rdma_cm_ports.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <sys/random.h>

namespace verbatim::agent {
namespace {

/// IANA's dynamic ports, which Linux assigns, too (ip_local_port_range).
constexpr std::uint16_t kFirstFreePort = 32'768;
constexpr std::uint16_t kLastFreePort = 60'999;
constexpr std::uint16_t kFirstUnprivilegedPort = 1024;

/// Returns true for a wildcard that also accepts connections to addresses of the other family.
bool spans_families(const PortBinding& binding) {
  return binding.address.is_ipv6() && !binding.own_family_only;
}

bool matches(const PortBinding& binding, const SocketAddress& destination) {
  if (!is_wildcard(binding.address)) return same_ip(binding.address, destination);
  return binding.address.family() == destination.family() || spans_families(binding);
}

std::string text_of(const PortBinding& binding) {
  const ServiceRange& services = binding.services;
  if (services.empty()) return fmt::format("{}", binding.address);
  return fmt::format("service {:#x} (mask {:#x}) at {}", services.id, services.mask,
                     binding.address.ip_text());
}

}  // namespace

bool is_wildcard(const SocketAddress& address) {
  const auto bytes = address.ipv6_bytes();
  const auto first = bytes.begin() + (address.is_ipv4() ? 12 : 0);
  return std::all_of(first, bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

/// Entries are in the order of their masks, of which there are few: nearly all name one service.
std::vector<const PortTable::Entry*> PortTable::overlapping(const ServiceRange& services) const {
  std::vector<const Entry*> found;
  for (auto first = entries_.begin(); first != entries_.end();) {
    const std::uint64_t mask = first->first.mask;
    auto last = entries_.upper_bound({mask, ~std::uint64_t{0}});
    const auto next = last;
    const bool has_no_bit_more = (mask & ~services.mask) == 0;
    if (has_no_bit_more) std::tie(first, last) = entries_.equal_range({mask, services.id & mask});
    for (; first != last; ++first) {
      if (first->first.overlaps(services)) found.push_back(&first->second);
    }
    first = next;
  }
  return found;
}

Result<void> PortTable::check(const Entry& wanted, bool may_reuse) const {
  const PortBinding& own = wanted.binding;
  for (const Entry* const entry : overlapping(own.all_services())) {
    const PortBinding& other = entry->binding;
    if (entry->program == wanted.program && other.handle == own.handle) continue;
    if (may_reuse && own.reuses_address && other.reuses_address && !other.listens) continue;
    if (own.own_family_only && other.own_family_only &&
        own.address.family() != other.address.family()) {
      continue;
    }
    if (is_wildcard(own.address) || is_wildcard(other.address)) {
      return refuse(EADDRNOTAVAIL, fmt::format("{} is in use on this node: another is bound to {}",
                                               text_of(own), text_of(other)));
    }
    if (same_ip(own.address, other.address)) {
      return refuse(EADDRINUSE, fmt::format("{} is in use on this node", text_of(own)));
    }
  }
  return {};
}

Result<std::uint16_t> PortTable::free_port(PortSpace space) {
  constexpr std::uint16_t kCount = kLastFreePort - kFirstFreePort + 1;
  if (last_port_ == 0) {
    // Starts at a random port, so that ports of an earlier node are not reused at once.
    std::uint16_t random = 0;
    [[maybe_unused]] const auto got = getrandom(&random, sizeof random, 0);
    last_port_ = static_cast<std::uint16_t>(kFirstFreePort + random % kCount);
  }
  for (unsigned tries = 0; tries < kCount; ++tries) {
    last_port_ =
        last_port_ == kLastFreePort ? kFirstFreePort : static_cast<std::uint16_t>(last_port_ + 1);
    const ServiceId service = wire::service_id_of(space, last_port_);
    if (overlapping(ServiceRange::of(service)).empty()) return last_port_;
  }
  return refuse(EADDRNOTAVAIL, "no free port is left");
}

void PortTable::add(ProgramId program, const PortBinding& binding) {
  const auto at = entries_.emplace(binding.all_services(), Entry{program, binding});
  owners_.emplace(std::pair{program, binding.handle}, at);
}

Result<std::uint16_t> PortTable::bind(ProgramId program, const PortBinding& wanted,
                                      bool privileged) {
  if (owners_.contains({program, wanted.handle})) {
    return refuse(EEXIST, fmt::format("handle {} is bound already", wanted.handle));
  }
  PortBinding binding = wanted;
  binding.listens = false;
  const bool is_port = binding.services.empty();
  if (is_port && binding.address.port() == 0) {
    const auto port = free_port(binding.port_space);
    if (!port) return port;
    binding.address = binding.address.with_port(*port);
  } else if (is_port && binding.address.port() < kFirstUnprivilegedPort && !privileged) {
    return refuse(EACCES,
                  fmt::format("port {} is for privileged programs", binding.address.port()));
  } else if (auto free = check({program, binding}, true); !free) {
    return std::unexpected(free.error());
  }
  add(program, binding);
  return binding.address.port();
}

Result<void> PortTable::listen(ProgramId program, std::uint64_t handle) {
  const auto owner = owners_.find({program, handle});
  if (owner == owners_.end()) return refuse(EINVAL, fmt::format("handle {} is not bound", handle));
  Entry& entry = owner->second->second;
  if (auto alone = check(entry, false); !alone) return alone;
  entry.binding.listens = true;
  return {};
}

std::optional<PortBinding> PortTable::release(ProgramId program, std::uint64_t handle) {
  const auto owner = owners_.find({program, handle});
  if (owner == owners_.end()) return std::nullopt;
  const PortBinding released = owner->second->second.binding;
  entries_.erase(owner->second);
  owners_.erase(owner);
  return released;
}

void PortTable::release_all(ProgramId program) {
  for (auto owner = owners_.lower_bound({program, 0});
       owner != owners_.end() && owner->first.first == program;) {
    entries_.erase(owner->second);
    owner = owners_.erase(owner);
  }
}

std::vector<PortBinding> PortTable::of(ProgramId program) const {
  std::vector<PortBinding> bindings;
  for (auto owner = owners_.lower_bound({program, 0});
       owner != owners_.end() && owner->first.first == program; ++owner) {
    bindings.push_back(owner->second->second.binding);
  }
  return bindings;
}

void PortTable::restore(ProgramId program, const PortBinding& binding) {
  release(program, binding.handle);
  add(program, binding);
}

std::optional<PortTable::Listener> PortTable::find(ServiceId service,
                                                   const SocketAddress& destination) const {
  const Entry* found = nullptr;
  for (const Entry* const entry : overlapping(ServiceRange::of(service))) {
    const PortBinding& binding = entry->binding;
    if (!binding.listens || !matches(binding, destination)) continue;
    if (found == nullptr || !is_wildcard(binding.address)) found = entry;
  }
  if (found == nullptr) return std::nullopt;
  return Listener{found->program, found->binding.handle};
}

}  // namespace verbatim::agent

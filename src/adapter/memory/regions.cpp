#include "adapter/memory/regions.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "adapter/memory/adoption.h"
#include "base/assert.h"
#include "region/memory.h"

namespace verbatim::adapter {
namespace {

/// Returns true for the whole address space with on-demand paging: an implicit region.
bool is_implicit(const region::Region& region) {
  return (region.access & region::kOnDemand) != 0 && region.address == 0 &&
         region.length == std::numeric_limits<std::uint64_t>::max();
}

/// Checks that a card makes.
Result<void> check_memory(const region::Region& region) {
  constexpr std::uint32_t kNeedsLocalWrite = region::kRemoteWrite | region::kRemoteAtomic;
  if ((region.access & kNeedsLocalWrite) != 0 && (region.access & region::kLocalWrite) == 0) {
    return refuse(EINVAL,
                  fmt::format("access {:#x}: remote write and remote atomic need local write",
                              region.access));
  }
  if ((region.access & region::kNull) != 0 || is_implicit(region)) return {};
  if (region.length <= Limits::region_bytes) return {};
  return refuse(EINVAL, fmt::format("{} bytes are above the largest region", region.length));
}

/// Makes the memory resident; that of the memory file is there whenever it is used.
Result<void> make_resident(const region::Region& region) {
  constexpr std::uint32_t kElsewhere = region::kNull | region::kOnDemand | region::kImported;
  if ((region.access & kElsewhere) != 0 || region.backing.length != 0) return {};
  return region::populate_memory(region.address, region.length,
                                 (region.access & region::kLocalWrite) != 0);
}

}  // namespace

Regions::Regions(Arena& arena)
    : table_(arena.header().region_header,
             std::span(arena.at(arena.header().regions), kRegionsMax)) {}

Regions::~Regions() = default;

void Regions::adopt_by(std::unique_ptr<Adoption> adoption) { adoption_ = std::move(adoption); }

Result<PdNumber> Regions::allocate_pd() {
  const std::lock_guard guard(lock_);
  if (pds_.size() >= Limits::protection_domains) {
    return refuse(ENOMEM, fmt::format("there are {} protection domains already", pds_.size()));
  }
  return add_pd({});
}

/// Requires lock_.
PdNumber Regions::add_pd(Pd pd) {
  do {
    ++last_pd_;
  } while (last_pd_ == 0 || pds_.contains(PdNumber{last_pd_}));
  pds_.emplace(PdNumber{last_pd_}, std::move(pd));
  return PdNumber{last_pd_};
}

bool Regions::has_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  return pds_.contains(pd);
}

Result<void> Regions::deallocate_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end()) return refuse(EINVAL, "no such protection domain");
  if (found->second.users > 0) {
    return refuse(EBUSY, fmt::format("{} regions, windows or queue pairs still use the protection "
                                     "domain",
                                     found->second.users));
  }
  pds_.erase(found);
  return {};
}

Result<void> Regions::enter_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end()) return refuse(EINVAL, "no such protection domain");
  ++found->second.users;
  return {};
}

void Regions::leave_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  --pds_[pd].users;
}

PdNumber Regions::import_pd(const ForeignDomain& domain) {
  const std::lock_guard guard(lock_);
  const auto known = std::ranges::find_if(pds_, [&](const auto& one) {
    const ForeignDomain& origin = one.second.origin;
    return origin.exporter == domain.exporter && origin.number == domain.number;
  });
  if (known == pds_.end()) return add_pd({.origin = domain, .imports = 1});
  ++known->second.imports;
  return known->first;
}

void Regions::unimport_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end() || found->second.imports == 0) return;
  // A domain with users stays until they end.
  if (--found->second.imports == 0 && found->second.users == 0) pds_.erase(found);
}

bool Regions::is_imported(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  return found != pds_.end() && found->second.origin.exporter != nullptr;
}

Result<ForeignDomain> Regions::origin_of(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end()) return refuse(EINVAL, "no such protection domain");
  return found->second.origin;
}

Result<MemoryKey> Regions::register_memory(const region::Region& region) {
  if (auto valid = check_memory(region); !valid) return std::unexpected(valid.error());
  region::Region wanted = region;
  if (adoption_) wanted.backing = adoption_->backing_of(region);
  if (auto there = make_resident(wanted); !there) return std::unexpected(there.error());
  return enter(wanted);
}

Result<MemoryKey> Regions::enter(const region::Region& region) {
  const std::lock_guard guard(lock_);
  const auto pd = pds_.find(region.pd);
  if (pd == pds_.end()) return refuse(EINVAL, "no such protection domain");
  auto key = table_.add(region);
  if (!key) return key;
  ++pd->second.users;
  registered_.emplace(*key, region.pd);
  return key;
}

Result<void> Regions::deregister_memory(MemoryKey key) {
  if (auto removed = table_.remove(key); !removed) return removed;
  {
    const std::lock_guard guard(lock_);
    const auto found = registered_.find(key);
    VERBATIM_ASSERT(found != registered_.end());
    --pds_[found->second].users;
    registered_.erase(found);
  }
  if (adoption_) adoption_->forget(key);
  return {};
}

Result<void> Regions::change_memory(MemoryKey key, const region::Region& region) {
  if (auto valid = check_memory(region); !valid) return valid;
  region::Region wanted = region;
  if (adoption_) wanted.backing = adoption_->backing_of(region);
  if (auto there = make_resident(wanted); !there) return there;
  if (adoption_ == nullptr) return exchange(key, wanted);
  return adoption_->exchange(key, [&] { return exchange(key, wanted); });
}

Result<void> Regions::exchange(MemoryKey key, const region::Region& region) {
  const std::lock_guard guard(lock_);
  const auto to = pds_.find(region.pd);
  if (to == pds_.end()) return refuse(EINVAL, "no such protection domain");
  const auto found = registered_.find(key);
  if (found == registered_.end()) {
    return refuse(EINVAL, fmt::format("no region has the key {:#010x}", raw(key)));
  }
  if (auto changed = table_.change(key, region); !changed) return changed;
  --pds_[found->second].users;
  ++to->second.users;
  found->second = region.pd;
  return {};
}

Result<MemoryKey> Regions::allocate_window(region::EntryKind type, PdNumber number) {
  const std::lock_guard guard(lock_);
  const auto pd = pds_.find(number);
  if (pd == pds_.end()) return refuse(EINVAL, "no such protection domain");
  auto window = table_.add_window(type, number);
  if (window) ++pd->second.users;
  return window;
}

Result<void> Regions::deallocate_window(MemoryKey window, PdNumber pd) {
  if (auto removed = table_.remove_window(window); !removed) return removed;
  const std::lock_guard guard(lock_);
  --pds_[pd].users;
  return {};
}

Result<void> Regions::prefetch(PdNumber pd, Prefetch advice, bool waits,
                               std::span<const Segment> list) {
  for (const Segment& segment : list) {
    const auto region = table_.find_region(MemoryKey{segment.key});
    if (!region) {
      return refuse(ENOENT, fmt::format("no region has the lkey {:#010x}", segment.key));
    }
    if (region->pd != pd) return refuse(EPERM, "the region belongs to another protection domain");
    if ((region->access & region::kOnDemand) == 0) {
      return refuse(EINVAL, "only on-demand regions (IBV_ACCESS_ON_DEMAND) are prefetched");
    }
    if (advice == Prefetch::write && (region->access & region::kLocalWrite) == 0) {
      return refuse(EPERM, "the region was registered without local write");
    }
    if (!region::contains(*region, segment.address, segment.length)) {
      return refuse(EFAULT, fmt::format("{:#x}+{} is not all in the region", segment.address,
                                        segment.length));
    }
  }
  if (advice == Prefetch::no_fault) return {};  // Resident memory is accessible to us already.
  for (const Segment& segment : list) {
    const auto region = table_.find_region(MemoryKey{segment.key});
    if (!region) continue;  // Deregistered meanwhile.
    const std::uint64_t address = region->address + (segment.address - region->iova);
    const auto there = region::populate_memory(address, segment.length, advice == Prefetch::write);
    if (!there && waits) return there;
  }
  return {};
}

}  // namespace verbatim::adapter

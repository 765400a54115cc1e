#include <cerrno>
#include <limits>

#include "adapter/adapter.h"
#include "region/memory.h"

/// Memory regions, windows and prefetching: the control path around the region table.
namespace verbatim::adapter {
namespace {

/// The whole address space, on demand: an implicit region.
bool is_implicit(const region::Region& region) {
  return (region.access & region::kOnDemand) != 0 && region.address == 0 &&
         region.length == std::numeric_limits<std::uint64_t>::max();
}

/// What a card checks of a region, and makes resident.
Result<void> check_memory(const region::Region& region) {
  constexpr std::uint32_t kNeedsLocalWrite = region::kRemoteWrite | region::kRemoteAtomic;
  if ((region.access & kNeedsLocalWrite) != 0 && (region.access & region::kLocalWrite) == 0) {
    return refuse(EINVAL,
                  fmt::format("access {:#x}: remote write and remote atomic need local write",
                              region.access));
  }
  if ((region.access & region::kNull) != 0 || is_implicit(region)) return {};
  if (region.length > Limits::region_bytes) {
    return refuse(EINVAL, fmt::format("{} bytes are above the largest region", region.length));
  }
  if ((region.access & (region::kOnDemand | region::kImported)) != 0) return {};
  return region::populate_memory(region.address, region.length,
                                 (region.access & region::kLocalWrite) != 0);
}

}  // namespace

Result<MemoryKey> Adapter::register_memory(const region::Region& region) {
  if (auto valid = check_memory(region); !valid) return std::unexpected(valid.error());
  region::Region wanted = region;
  auto adopted = adopt_memory(wanted);
  if (!adopted) return std::unexpected(adopted.error());
  auto key = enter(wanted, *adopted);
  if (!key) release_memory(*adopted);
  return key;
}

Result<MemoryKey> Adapter::enter(const region::Region& region, const Adopted& adopted) {
  const std::lock_guard guard(lock_);
  const auto pd = pds_.find(region.pd);
  if (pd == pds_.end()) return refuse(EINVAL, "no such protection domain");
  auto key = regions_->add(region);
  if (!key) return key;
  ++pd->second.users;
  registered_.emplace(*key, Registered{region.pd, adopted});
  return key;
}

Result<void> Adapter::deregister_memory(MemoryKey key) {
  if (auto removed = regions_->remove(key); !removed) return removed;
  Adopted adopted;
  {
    const std::lock_guard guard(lock_);
    const auto found = registered_.find(key);
    VERBATIM_ASSERT(found != registered_.end());
    --pds_[found->second.pd].users;
    adopted = std::move(found->second.adopted);
    registered_.erase(found);
  }
  release_memory(adopted);
  return {};
}

Result<void> Adapter::change_memory(MemoryKey key, const region::Region& region) {
  if (auto valid = check_memory(region); !valid) return valid;
  region::Region wanted = region;
  auto adopted = adopt_memory(wanted);
  if (!adopted) return std::unexpected(adopted.error());
  // Then the old one's, or, where it is refused, the new one's.
  const auto changed = exchange(key, wanted, *adopted);
  release_memory(*adopted);
  return changed;
}

Result<void> Adapter::exchange(MemoryKey key, const region::Region& region, Adopted& adopted) {
  const std::lock_guard guard(lock_);
  const auto to = pds_.find(region.pd);
  if (to == pds_.end()) return refuse(EINVAL, "no such protection domain");
  const auto found = registered_.find(key);
  if (found == registered_.end()) {
    return refuse(EINVAL, fmt::format("no region has the key {:#010x}", raw(key)));
  }
  if (auto changed = regions_->change(key, region); !changed) return changed;
  --pds_[found->second.pd].users;
  ++to->second.users;
  found->second.pd = region.pd;
  std::swap(found->second.adopted, adopted);
  return {};
}

Result<MemoryKey> Adapter::allocate_window(region::EntryKind type, PdNumber number) {
  const std::lock_guard guard(lock_);
  const auto pd = pds_.find(number);
  if (pd == pds_.end()) return refuse(EINVAL, "no such protection domain");
  auto window = regions_->add_window(type, number);
  if (window) ++pd->second.users;
  return window;
}

Result<void> Adapter::deallocate_window(MemoryKey window, PdNumber pd) {
  if (auto removed = regions_->remove_window(window); !removed) return removed;
  const std::lock_guard guard(lock_);
  --pds_[pd].users;
  return {};
}

Result<void> Adapter::prefetch(PdNumber pd, Prefetch advice, bool waits,
                               std::span<const Segment> list) {
  for (const Segment& segment : list) {
    const auto region = regions_->find_region(MemoryKey{segment.key});
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
  if (advice == Prefetch::no_fault) return {};  // What is in memory is there for us already.
  for (const Segment& segment : list) {
    const auto region = regions_->find_region(MemoryKey{segment.key});
    if (!region) continue;  // Deregistered meanwhile.
    const std::uint64_t address = region->address + (segment.address - region->iova);
    const auto there = region::populate_memory(address, segment.length, advice == Prefetch::write);
    if (!there && waits) return there;
  }
  return {};
}

}  // namespace verbatim::adapter

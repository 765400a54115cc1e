#include <cerrno>
#include <mutex>

#include <fmt/format.h>

#include "region/region_table.h"

/// Memory windows: binding, invalidation and their rules (IBA volume 1, section 10.6.7).
namespace verbatim::region {
namespace {

constexpr std::uint32_t kNameMask = ~std::uint32_t{0xff};
constexpr std::uint32_t kWindowRights = kRemoteWrite | kRemoteRead | kRemoteAtomic;

std::unexpected<Error> refuse_window(MemoryKey window) {
  return refuse(EINVAL, fmt::format("no memory window has the key {:#010x}", raw(window)));
}

/// The rules about the window only.
Result<void> check_window(const RegionEntry& window, const WindowBinding& binding) {
  if ((raw(binding.key) & kNameMask) != (raw(binding.window) & kNameMask) ||
      raw(binding.key) == 0) {
    return refuse(EINVAL, fmt::format("key {:#010x}: the upper 24 bits must be those of {:#010x}",
                                      raw(binding.key), raw(binding.window)));
  }
  // Local write has no meaning for a window, but programs set it, and cards accept it.
  constexpr std::uint32_t kKnown = kWindowRights | kZeroBased | kLocalWrite;
  if ((binding.access & ~kKnown) != 0) {
    return refuse(EINVAL, fmt::format("access {:#x}: a window gives remote rights alone",
                                      binding.access & ~kKnown));
  }
  if (window.kind != EntryKind::window_2) return {};
  if (window.parent != 0) {  // IBA o10-37.2.30.
    return refuse(EINVAL, "the type 2 window is bound; it must be invalidated first");
  }
  if (binding.length == 0) {  // IBA o10-37.2.40.
    return refuse(EINVAL, "a type 2 window cannot be bound to no bytes");
  }
  return {};
}

/// The rules about the region to which the window is bound.
Result<void> check_region(const RegionEntry& region, const WindowBinding& binding) {
  const Region& shown = region.region;
  if ((shown.access & kMwBind) == 0) {  // IBA C10-73.
    return refuse(EINVAL, "the region was registered without the right to bind windows");
  }
  const bool writes = (binding.access & (kRemoteWrite | kRemoteAtomic)) != 0;
  if (writes && (shown.access & kLocalWrite) == 0) {  // IBA C10-74.
    return refuse(EINVAL, "remote write and remote atomic need a region with local write");
  }
  if (!contains(shown, binding.address, binding.length)) {  // IBA C10-75.
    return refuse(EINVAL, fmt::format("{:#x}+{} is not all in the region {:#x}+{}", binding.address,
                                      binding.length, shown.iova, shown.length));
  }
  return {};
}

/// IBA o10-37.2.26: neither regions that a call has registered nor type 1 windows can be
/// invalidated.
std::expected<void, KeyError> may_invalidate(const RegionEntry& entry, const Accessor& by) {
  if (entry.kind != EntryKind::window_2) return std::unexpected(KeyError::missing_right);
  if (entry.qpn != by.qpn || entry.region.pd != by.pd) {
    return std::unexpected(KeyError::wrong_domain);
  }
  return {};
}

}  // namespace

Result<MemoryKey> RegionTable::add_window(EntryKind type, PdNumber pd) {
  const std::lock_guard guard(header_.lock);
  return claim({.pd = pd}, type);
}

Result<void> RegionTable::remove_window(MemoryKey window) {
  const std::lock_guard guard(header_.lock);
  RegionEntry* const entry = find_window(window);
  if (entry == nullptr) return refuse_window(window);
  unbind(*entry);
  release(*entry);
  return {};
}

/// Requires lock. A holder of the window never waits for the lock, so waiting under it ends.
void RegionTable::unbind(RegionEntry& window) {
  if (window.parent == 0) return;
  window.key.store(0, std::memory_order_seq_cst);
  drain(window);
  --entries_[window.parent - 1].windows;
  if (window.kind == EntryKind::window_2) --header_.bound_windows;
  window.parent = 0;
}

/// Returns the region of the bind, if the bind is allowed. Requires lock.
Result<const RegionEntry*> RegionTable::check_binding(const RegionEntry& window,
                                                      const WindowBinding& binding,
                                                      const Accessor& by) const {
  if (auto valid = check_window(window, binding); !valid) return std::unexpected(valid.error());
  const RegionEntry* const region = find(binding.region);
  if (region == nullptr || region->kind != EntryKind::region) {
    return refuse(EINVAL, fmt::format("no region has the key {:#010x}", raw(binding.region)));
  }
  if (window.region.pd != by.pd || region->region.pd != by.pd) {  // IBA C10-72.
    return refuse(EINVAL, "window, region and queue pair are not of one protection domain");
  }
  if (auto valid = check_region(*region, binding); !valid) return std::unexpected(valid.error());
  return region;
}

Result<void> RegionTable::bind(const WindowBinding& binding, const Accessor& by) {
  const std::lock_guard guard(header_.lock);
  RegionEntry* const window = find_window(binding.window);
  if (window == nullptr) return refuse_window(binding.window);
  if (binding.length == 0 && window->kind == EntryKind::window_1) {
    if (window->region.pd != by.pd) return refuse(EINVAL, "the window is of another domain");
    unbind(*window);
    return {};
  }
  const auto parent = check_binding(*window, binding, by);
  if (!parent) return std::unexpected(parent.error());
  unbind(*window);
  const Region& shown = (*parent)->region;
  window->region = {
      .address = shown.address + (binding.address - shown.iova),
      .length = binding.length,
      .iova = (binding.access & kZeroBased) != 0 ? 0 : binding.address,
      .access = binding.access | (shown.access & (kOnDemand | kImported | kNull)),
      .pd = by.pd,
      .backing = shown.backing,
  };
  window->parent = index_of(**parent) + 1;
  ++entries_[window->parent - 1].windows;
  if (window->kind == EntryKind::window_2) {
    window->qpn = by.qpn;
    ++header_.bound_windows;
  }
  window->key.store(raw(binding.key), std::memory_order_seq_cst);
  return {};
}

std::expected<void, KeyError> RegionTable::check_invalidation(MemoryKey key,
                                                              const Accessor& by) const {
  if (use_ == Use::lookup_only) return check_invalidation_locked(key, by);
  const auto entered = enter(key);
  if (!entered) return std::unexpected(entered.error());
  return may_invalidate(*entered->entry_, by);
}

std::expected<void, KeyError> RegionTable::check_invalidation_locked(MemoryKey key,
                                                                     const Accessor& by) const {
  const RegionEntry* const entry = find(key);
  if (entry == nullptr) return std::unexpected(KeyError::unknown_key);
  return may_invalidate(*entry, by);
}

std::expected<void, KeyError> RegionTable::invalidate(MemoryKey key, const Accessor& by) {
  const std::lock_guard guard(header_.lock);
  if (auto allowed = check_invalidation(key, by); !allowed) return allowed;
  unbind(*find(key));
  return {};
}

void RegionTable::unbind_all(Qpn qpn) {
  const std::lock_guard guard(header_.lock);
  const std::uint32_t used = header_.used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used && header_.bound_windows > 0; ++i) {
    RegionEntry& entry = entries_[i];
    if (entry.kind == EntryKind::window_2 && entry.parent != 0 && entry.qpn == qpn) unbind(entry);
  }
}

}  // namespace verbatim::region

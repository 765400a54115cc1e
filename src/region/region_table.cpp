#include "region/region_table.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "base/assert.h"
#include "base/processor.h"

namespace verbatim::region {
namespace {

constexpr std::uint32_t kIndexBits = 20;
constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
constexpr std::uint32_t kGenerationMask = 0xf;
constexpr unsigned kSpinsBeforeYield = 256;

bool wraps(std::uint64_t start, std::uint64_t length) {
  return length > std::numeric_limits<std::uint64_t>::max() - start;
}

Result<void> check_addresses(const Region& region) {
  if (!wraps(region.address, region.length) && !wraps(region.iova, region.length)) return {};
  return refuse(EINVAL,
                fmt::format("region: {:#x} (iova {:#x}) + {} bytes passes the end of memory",
                            region.address, region.iova, region.length));
}

std::unexpected<Error> refuse_key(MemoryKey key) {
  return refuse(EINVAL, fmt::format("region: no region has the key {:#010x}", raw(key)));
}

}  // namespace

/// Waits until no reference to the entry, and no lookup of it under a lock, is left. Requires that
/// its key is cleared and, for a region, that the table's lock is not held: the program's own
/// lookups may take it.
void RegionTable::drain(const RegionEntry& entry) const {
  for (unsigned spins = 1; entry.holders.load(std::memory_order_seq_cst) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      relax_processor();
    } else {
      sched_yield();  // The holder may be a thread that waits for this CPU.
    }
  }
  if (grace_period_.wait_for_peers) grace_period_.wait_for_peers();
  if (grace_period_.wait_for_own && entry.kind == EntryKind::region) grace_period_.wait_for_own();
}

const char* describe(KeyError error) {
  switch (error) {
    case KeyError::unknown_key:
      return "no region has this key";
    case KeyError::wrong_domain:
      return "the region belongs to another protection domain";
    case KeyError::missing_right:
      return "the region does not give this right";
    case KeyError::out_of_bounds:
      return "the bytes are not all in the region";
    case KeyError::not_mapped:
      return "the program has unmapped the memory";
  }
  return "unknown";
}

Hold::Hold(Hold&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)),
      address_(std::exchange(other.address_, nullptr)),
      backing_(other.backing_) {}

Hold& Hold::operator=(Hold&& other) noexcept {
  std::swap(entry_, other.entry_);
  std::swap(address_, other.address_);
  std::swap(backing_, other.backing_);
  return *this;
}

bool Hold::move_to(std::uint64_t iova, std::uint64_t length) {
  const Region& region = entry_->region;
  if (!contains(region, iova, length)) return false;
  address_ = reinterpret_cast<std::byte*>(region.address + (iova - region.iova));
  backing_ = backing_of(region.access);
  return true;
}

RegionTable::RegionTable(RegionTableHeader& header, std::span<RegionEntry> entries, Use use)
    : header_(header), entries_(entries), permutation_(header.secret), use_(use) {
  VERBATIM_ASSERT(entries.size() <= std::size_t{1} << kIndexBits);
}

void RegionTable::initialise(RegionTableHeader& header, std::uint64_t secret) {
  header.first_free = 0;
  header.used.store(0, std::memory_order_relaxed);
  header.count.store(0, std::memory_order_relaxed);
  header.bound_windows = 0;
  header.secret = secret;
  header.additions = 0;
}

/// Returns a freed entry, or the next unused one; null if the table is full. Requires lock.
RegionEntry* RegionTable::allocate() {
  if (header_.first_free != 0) {
    RegionEntry& entry = entries_[header_.first_free - 1];
    header_.first_free = entry.next_free;
    return &entry;
  }
  const std::uint32_t used = header_.used.load(std::memory_order_relaxed);
  if (used == entries_.size()) return nullptr;
  header_.used.store(used + 1, std::memory_order_relaxed);
  return &entries_[used];
}

/// Allocates an entry and chooses its key, without publishing it. Requires lock.
Result<MemoryKey> RegionTable::claim(const Region& region, EntryKind kind) {
  RegionEntry* const entry = allocate();
  if (entry == nullptr) {
    return refuse(ENOMEM, fmt::format("region: all {} entries are in use", entries_.size()));
  }
  entry->region = region;
  entry->kind = kind;
  entry->windows = entry->parent = 0;
  entry->qpn = {};
  const std::uint32_t name =
      permutation_.permute(entry->generation << kIndexBits | index_of(*entry));
  std::uint32_t random =
      static_cast<std::uint32_t>(mix(header_.secret, header_.additions++)) & 0xff;
  if (raw(resolve(MemoryKey{name << 8 | random})) != (name << 8 | random)) random ^= 1;
  if (name == 0 && random == 0) random = 1;  // Zero means a free entry.
  header_.count.fetch_add(1, std::memory_order_relaxed);
  return MemoryKey{name << 8 | random};
}

/// Returns the entry to the free list. Requires lock, a cleared key, and no reference to the entry.
void RegionTable::release(RegionEntry& entry) {
  entry.kind = EntryKind::unused;
  entry.generation = (entry.generation + 1) & kGenerationMask;
  entry.next_free = header_.first_free;
  header_.first_free = index_of(entry) + 1;
  header_.count.fetch_sub(1, std::memory_order_relaxed);
}

Result<MemoryKey> RegionTable::add(const Region& region) {
  if (auto valid = check_addresses(region); !valid) return std::unexpected(valid.error());
  const std::lock_guard guard(header_.lock);
  const auto key = claim(region, EntryKind::region);
  if (key) entry_at(*key)->key.store(raw(*key), std::memory_order_seq_cst);
  return key;
}

/// Clears the region's key, waits as `drain` does and returns the entry, which now belongs to the
/// caller. Of several threads that close the same key one succeeds.
Result<RegionEntry*> RegionTable::close(MemoryKey key) {
  RegionEntry* entry = nullptr;
  {
    const std::lock_guard guard(header_.lock);
    entry = find(key);
    if (entry == nullptr || entry->kind != EntryKind::region) return refuse_key(key);
    if (entry->windows != 0) {
      return refuse(EBUSY, fmt::format("{} memory windows are bound to it", entry->windows));
    }
    entry->key.store(0, std::memory_order_seq_cst);
  }
  drain(*entry);  // Without the lock, for which the program's own lookups may wait.
  return entry;
}

Result<void> RegionTable::remove(MemoryKey key) {
  const auto entry = close(key);
  if (!entry) return std::unexpected(entry.error());
  const std::lock_guard guard(header_.lock);
  release(**entry);
  return {};
}

Result<void> RegionTable::change(MemoryKey key, const Region& region) {
  if (auto valid = check_addresses(region); !valid) return valid;
  const auto entry = close(key);
  if (!entry) return std::unexpected(entry.error());
  (*entry)->region = region;
  (*entry)->key.store(raw(key), std::memory_order_seq_cst);
  return {};
}

std::optional<Region> RegionTable::find_region(MemoryKey key) const {
  const auto entered = enter(key);
  if (!entered || entered->entry_->kind != EntryKind::region) return std::nullopt;
  return entered->entry_->region;
}

bool RegionTable::set_moved(MemoryKey key, std::uint64_t address, std::uint64_t moved) {
  const std::lock_guard guard(header_.lock);
  RegionEntry* const entry = find(key);
  if (entry == nullptr || entry->region.backing.address != address) return false;
  const auto publish = [moved](RegionEntry& one) {
    __atomic_store_n(&one.region.backing.length, moved, __ATOMIC_RELEASE);
  };
  publish(*entry);
  const std::uint32_t used = entry->windows == 0 ? 0 : header_.used.load(std::memory_order_relaxed);
  for (RegionEntry& window : entries_.first(used)) {
    if (window.kind != EntryKind::region && window.parent == index_of(*entry) + 1) publish(window);
  }
  return true;
}

void RegionTable::set_price(MemoryKey key, std::uint64_t price) {
  const std::lock_guard guard(header_.lock);
  RegionEntry* const entry = find(key);
  if (entry == nullptr) return;
  __atomic_store_n(&entry->region.backing.paid, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->region.backing.price, price, __ATOMIC_RELAXED);
}

MemoryKey RegionTable::pay(const Region& region, std::uint64_t nanoseconds) const {
  // `region` is a part of an entry.
  auto* entry = reinterpret_cast<RegionEntry*>(
      const_cast<char*>(reinterpret_cast<const char*>(&region)) - offsetof(RegionEntry, region));
  if (entry->kind != EntryKind::region) entry = &entries_[entry->parent - 1];
  Backing& backing = entry->region.backing;
  const std::uint64_t price = __atomic_load_n(&backing.price, __ATOMIC_RELAXED);
  const std::uint64_t paid = __atomic_add_fetch(&backing.paid, nanoseconds, __ATOMIC_RELAXED);
  return paid < price ? MemoryKey{} : MemoryKey{entry->key.load(std::memory_order_relaxed)};
}

bool RegionTable::any_overlaps(std::uint64_t address, std::uint64_t length,
                               std::uint32_t access) const {
  const std::lock_guard guard(header_.lock);
  const std::uint32_t used = header_.used.load(std::memory_order_relaxed);
  return std::ranges::any_of(entries_.first(used), [&](const RegionEntry& entry) {
    const Region& one = entry.region;
    return entry.kind == EntryKind::region && entry.key.load() != 0 && (one.access & access) != 0 &&
           one.address < address + length && address < one.address + one.length;
  });
}

/// Returns the entry of the key, whether or not it has this key now.
RegionEntry* RegionTable::entry_at(MemoryKey key) const {
  const std::uint32_t index = permutation_.restore(raw(key) >> 8) & kIndexMask;
  return index < header_.used.load(std::memory_order_relaxed) ? &entries_[index] : nullptr;
}

RegionEntry* RegionTable::find(MemoryKey key) const {
  KeyCache unused;
  return find(key, unused);
}

/// Returns a window's entry, bound or not. Requires lock.
RegionEntry* RegionTable::find_window(MemoryKey window) const {
  RegionEntry* const entry = entry_at(window);
  if (entry == nullptr) return nullptr;
  const bool is_window = entry->kind == EntryKind::window_1 || entry->kind == EntryKind::window_2;
  const bool is_it = permutation_.restore(raw(window) >> 8) >> kIndexBits == entry->generation;
  return is_window && is_it ? entry : nullptr;
}

/// Takes a reference to the entry with this key. The entry may only be read with a reference,
/// because it can be removed and reused at any time.
std::expected<Hold, KeyError> RegionTable::enter(MemoryKey key) const {
  key = resolve(key);
  RegionEntry* const entry = find(key);
  if (entry == nullptr) return std::unexpected(KeyError::unknown_key);
  entry->holders.fetch_add(1, std::memory_order_seq_cst);
  Hold entered(entry, nullptr);  // Releases it if the key is refused.
  if (entry->key.load(std::memory_order_seq_cst) != raw(key)) {
    return std::unexpected(KeyError::unknown_key);
  }
  return entered;
}

std::expected<Hold, KeyError> RegionTable::enter(MemoryKey key, std::uint32_t rights,
                                                 const Accessor& by) const {
  auto entered = enter(key);
  if (!entered) return entered;
  if (const auto wrong = refusal_of(*entered->entry_, rights, by)) return std::unexpected(*wrong);
  return entered;
}

std::expected<const Region*, KeyError> RegionTable::find_region_locked(MemoryKey key,
                                                                       PdNumber pd) const {
  const RegionEntry* const entry = find(key);
  if (entry == nullptr || entry->kind != EntryKind::region) {
    return std::unexpected(KeyError::unknown_key);
  }
  if (entry->region.pd != pd) return std::unexpected(KeyError::wrong_domain);
  return &entry->region;
}

std::expected<void, KeyError> RegionTable::check_key_locked(MemoryKey key, std::uint32_t rights,
                                                            const Accessor& by) const {
  const RegionEntry* const entry = find(key);
  if (entry == nullptr) return std::unexpected(KeyError::unknown_key);
  if (const auto wrong = refusal_of(*entry, rights, by)) return std::unexpected(*wrong);
  return {};
}

std::expected<void, KeyError> RegionTable::check(MemoryKey key, std::uint64_t iova,
                                                 std::uint64_t length, std::uint32_t rights,
                                                 const Accessor& by) const {
  if (use_ == Use::lookup_only) {
    KeyCache unused;
    const auto found = find_locked(key, iova, length, rights, by, unused);
    return found ? std::expected<void, KeyError>() : std::unexpected(found.error());
  }
  const auto held = hold(key, iova, length, rights, by);
  if (!held) return std::unexpected(held.error());
  return {};
}

std::expected<void, KeyError> RegionTable::check_key(MemoryKey key, std::uint32_t rights,
                                                     const Accessor& by) const {
  if (use_ == Use::lookup_only) return check_key_locked(key, rights, by);
  const auto entered = enter(key, rights, by);
  if (!entered) return std::unexpected(entered.error());
  return {};
}

std::expected<Hold, KeyError> RegionTable::hold(MemoryKey key, std::uint64_t iova,
                                                std::uint64_t length, std::uint32_t rights,
                                                const Accessor& by) const {
  auto entered = enter(key, rights, by);
  if (!entered) return entered;
  if (!entered->move_to(iova, length)) return std::unexpected(KeyError::out_of_bounds);
  return entered;
}

Result<void> RegionTable::add_alias(MemoryKey alias, MemoryKey key) {
  const std::lock_guard guard(aliases_lock_);
  const RegionEntry* const entry = entry_at(alias);
  const bool is_taken = entry != nullptr && entry->key.load() == raw(alias);
  if (is_taken || aliases_.contains(alias)) {
    return refuse(EEXIST, fmt::format("the key {:#010x} is another region's here", raw(alias)));
  }
  aliases_.emplace(alias, key);
  alias_count_.store(static_cast<std::uint32_t>(aliases_.size()));
  return {};
}

void RegionTable::remove_alias(MemoryKey alias) {
  const std::lock_guard guard(aliases_lock_);
  aliases_.erase(alias);
  alias_count_.store(static_cast<std::uint32_t>(aliases_.size()));
}

MemoryKey RegionTable::resolve_alias(MemoryKey key) const {
  const std::shared_lock guard(aliases_lock_);
  const auto found = aliases_.find(key);
  return found == aliases_.end() ? key : found->second;
}

std::uint32_t RegionTable::count() const { return header_.count.load(std::memory_order_relaxed); }

}  // namespace verbatim::region

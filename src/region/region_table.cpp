#include "region/region_table.h"

#include <cerrno>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "base/assert.h"

namespace verbatim::region {
namespace {

constexpr std::uint32_t kIndexBits = 20;
constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
constexpr std::uint32_t kGenerationMask = 0xf;
constexpr unsigned kSpinsBeforeYield = 256;

bool wraps(std::uint64_t start, std::uint64_t length) {
  return length > std::numeric_limits<std::uint64_t>::max() - start;
}

/// Whether [iova, iova + length) lies in the region. No sum is formed, so none can overflow.
bool contains(const Region& region, std::uint64_t iova, std::uint64_t length) {
  return iova >= region.iova && length <= region.length &&
         iova - region.iova <= region.length - length;
}

/// Waits until nobody holds the entry, whose key is cleared: no new holder stays.
void drain(const RegionEntry& entry) {
  for (unsigned spins = 1; entry.holders.load(std::memory_order_seq_cst) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      __builtin_ia32_pause();
    } else {
      sched_yield();  // The holder may be a thread that waits for this processor.
    }
  }
}

}  // namespace

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
  }
  return "unknown";
}

Hold::Hold(Hold&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)),
      address_(std::exchange(other.address_, nullptr)) {}

Hold& Hold::operator=(Hold&& other) noexcept {
  std::swap(entry_, other.entry_);
  std::swap(address_, other.address_);
  return *this;
}

Hold::~Hold() {
  if (entry_ != nullptr) entry_->holders.fetch_sub(1, std::memory_order_release);
}

RegionTable::RegionTable(RegionTableHeader& header, std::span<RegionEntry> entries)
    : header_(header), entries_(entries), permutation_(header.secret) {
  VERBATIM_ASSERT(entries.size() <= std::size_t{1} << kIndexBits);
}

void RegionTable::initialise(RegionTableHeader& header, std::uint64_t secret) {
  header.first_free = 0;
  header.used.store(0, std::memory_order_relaxed);
  header.count.store(0, std::memory_order_relaxed);
  header.secret = secret;
  header.additions = 0;
}

/// A freed entry, or the next untouched one; null when the table is full. Under the lock.
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

Result<MemoryKey> RegionTable::add(const Region& region) {
  if (wraps(region.address, region.length) || wraps(region.iova, region.length)) {
    return refuse(EINVAL,
                  fmt::format("region: {:#x} (iova {:#x}) + {} bytes passes the end of memory",
                              region.address, region.iova, region.length));
  }
  const std::lock_guard guard(header_.lock);
  RegionEntry* const entry = allocate();
  if (entry == nullptr) {
    return refuse(ENOMEM, fmt::format("region: all {} entries are in use", entries_.size()));
  }
  entry->region = region;
  const auto index = static_cast<std::uint32_t>(entry - entries_.data());
  const std::uint32_t name = permutation_.permute(entry->generation << kIndexBits | index);
  std::uint32_t random =
      static_cast<std::uint32_t>(mix(header_.secret, header_.additions++)) & 0xff;
  if (name == 0 && random == 0) random = 1;  // Zero means: free.
  const std::uint32_t key = name << 8 | random;
  header_.count.fetch_add(1, std::memory_order_relaxed);
  entry->key.store(key, std::memory_order_seq_cst);
  return MemoryKey{key};
}

Result<void> RegionTable::remove(MemoryKey key) {
  RegionEntry* const entry = find(key);
  std::uint32_t expected = raw(key);
  // Of several threads that remove the same key, one succeeds.
  if (entry == nullptr ||
      !entry->key.compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) {
    return refuse(EINVAL, fmt::format("region: no region has the key {:#010x}", raw(key)));
  }
  drain(*entry);
  const std::lock_guard guard(header_.lock);
  entry->generation = (entry->generation + 1) & kGenerationMask;
  entry->next_free = header_.first_free;
  header_.first_free = static_cast<std::uint32_t>(entry - entries_.data()) + 1;
  header_.count.fetch_sub(1, std::memory_order_relaxed);
  return {};
}

/// The entry that the key would be in, if it carries this key now.
RegionEntry* RegionTable::find(MemoryKey key) const {
  if (raw(key) == 0) return nullptr;
  const std::uint32_t index = permutation_.restore(raw(key) >> 8) & kIndexMask;
  if (index >= header_.used.load(std::memory_order_relaxed)) return nullptr;
  RegionEntry* const entry = &entries_[index];
  return entry->key.load(std::memory_order_acquire) == raw(key) ? entry : nullptr;
}

std::expected<void, KeyError> RegionTable::check(MemoryKey key, std::uint64_t iova,
                                                 std::uint64_t length, std::uint32_t rights,
                                                 PdNumber pd) const {
  // The region may only be read while it is held: an entry can be removed and reused meanwhile.
  const auto held = hold(key, iova, length, rights, pd);
  if (!held) return std::unexpected(held.error());
  return {};
}

std::expected<Hold, KeyError> RegionTable::hold(MemoryKey key, std::uint64_t iova,
                                                std::uint64_t length, std::uint32_t rights,
                                                PdNumber pd) const {
  RegionEntry* const entry = find(key);
  if (entry == nullptr) return std::unexpected(KeyError::unknown_key);
  entry->holders.fetch_add(1, std::memory_order_seq_cst);
  Hold entered(entry, nullptr);  // Lets go at each refusal below.
  if (entry->key.load(std::memory_order_seq_cst) != raw(key)) {
    return std::unexpected(KeyError::unknown_key);
  }
  const Region& region = entry->region;
  if (region.pd != pd) return std::unexpected(KeyError::wrong_domain);
  if ((region.access & rights) != rights) return std::unexpected(KeyError::missing_right);
  if (!contains(region, iova, length)) return std::unexpected(KeyError::out_of_bounds);
  const std::uint64_t address = region.address + (iova - region.iova);
  entered.address_ = reinterpret_cast<std::byte*>(address);
  return entered;
}

std::uint32_t RegionTable::count() const { return header_.count.load(std::memory_order_relaxed); }

}  // namespace verbatim::region

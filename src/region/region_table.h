#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <span>

#include "base/error.h"
#include "base/spin_lock.h"
#include "base/types.h"
#include "region/key_permutation.h"

/// Memory regions: who may touch which bytes with which key (IBA volume 1, section 10.6).
namespace verbatim::region {

/// Rights of a region, with the values of `enum ibv_access_flags`.
enum Access : std::uint32_t {
  kLocalRead = 0,  // Every region has it.
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kMwBind = 16,
  kZeroBased = 32,
  kOnDemand = 64,
};

struct Region {
  std::uint64_t address = 0;  // Where the bytes are in the process that registered them.
  std::uint64_t length = 0;   // Bytes.
  std::uint64_t iova = 0;     // The address that requests use for the first byte.
  std::uint32_t access = 0;   // Bits of `Access`.
  PdNumber pd{};
};

/// Why a key does not serve a request. The order is that of the checks.
enum class KeyError : std::uint8_t { unknown_key, wrong_domain, missing_right, out_of_bounds };
const char* describe(KeyError error);

/// One region as it lies in the shared arena: fixed size, no pointers of our own.
///
/// Two sides meet here, in any process: who holds raises `holders` and then looks at `key` again;
/// who removes clears `key` and then looks at `holders`. Each writes one word and reads the
/// other's, so all four accesses are sequentially consistent: at least one side sees the other.
/// Either the holder sees the cleared key and lets go without having read `region`, or the remover
/// sees the holder and waits.
///
/// `region`, `generation` and `next_free` are written under the table's lock while `key` is zero
/// and nobody holds; storing the new `key` publishes them. A holder's last decrement is a release,
/// which the remover's reading of zero acquires: all copying is over before the memory is given
/// back.
struct alignas(64) RegionEntry {
  std::atomic<std::uint32_t> key{0};
  std::atomic<std::uint32_t> holders{0};
  Region region;
  std::uint32_t generation = 0;
  std::uint32_t next_free = 0;
};

/// What the table needs beside its entries, also in the arena. All but `used` and `count` is
/// written under `lock`.
struct RegionTableHeader {
  SpinLock lock;
  std::uint32_t first_free = 0;  // Index + 1 of a freed entry; 0 for none.
  /// Entries that were ever in use: the rest is untouched memory, which a lookup must not touch
  /// either (reading it would make the arena larger). Written under `lock`; relaxed, for it only
  /// grows and the entry's key decides.
  std::atomic<std::uint32_t> used{0};
  std::atomic<std::uint32_t> count{0};  // Live regions. Written under `lock`; relaxed, a statistic.
  std::uint64_t secret = 0;             // Keys the permutation of indexes and the random bits.
  std::uint64_t additions = 0;  // Regions ever entered: what the random bits are drawn from.
};

class RegionTable;

/// The right to touch the bytes of a region: while it lives, the region is not deregistered.
class Hold {
 public:
  Hold() = default;
  Hold(RegionEntry* entry, std::byte* address) : entry_(entry), address_(address) {}
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  ~Hold();
  /// The first byte asked for, in the registering process's address space.
  std::byte* address() const { return address_; }

 private:
  friend class RegionTable;
  RegionEntry* entry_ = nullptr;  // Not owned; in the arena, outlives the hold.
  std::byte* address_ = nullptr;
};

/// The regions of one process. Any thread may call anything. The table is a view: it owns neither
/// header nor entries.
class RegionTable {
 public:
  /// `entries` are zeroed memory when `initialise` is called; at most 2^20 of them. `secret` is
  /// random and stays in the arena. A view is made after `initialise`, in any process.
  RegionTable(RegionTableHeader& header, std::span<RegionEntry> entries);
  static void initialise(RegionTableHeader& header, std::uint64_t secret);

  /// Enters a region and returns its key: both lkey and rkey, never 0. ENOMEM when the table is
  /// full, EINVAL when the addresses wrap. A region of no bytes is allowed: it serves requests of
  /// no bytes.
  Result<MemoryKey> add(const Region& region);
  /// Takes the region out; waits until nobody holds it, so the caller must not hold it. EINVAL for
  /// an unknown key, also when another thread has just removed it.
  Result<void> remove(MemoryKey key);

  /// Checks in the order of KeyError, without holding: an engine's question. A request of no bytes
  /// needs no key (IBA C9-88, o9-20), so callers do not ask then.
  std::expected<void, KeyError> check(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                      std::uint32_t rights, PdNumber pd) const;
  /// Checks and holds.
  std::expected<Hold, KeyError> hold(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                     std::uint32_t rights, PdNumber pd) const;
  std::uint32_t count() const;

 private:
  RegionEntry* find(MemoryKey key) const;
  RegionEntry* allocate();

  RegionTableHeader& header_;
  std::span<RegionEntry> entries_;
  KeyPermutation permutation_;
};

}  // namespace verbatim::region

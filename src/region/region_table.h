#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <shared_mutex>
#include <span>

#include "base/error.h"
#include "base/os/spin_lock.h"
#include "base/types.h"
#include "region/extent.h"
#include "region/key_permutation.h"

/// Memory regions: who may touch which bytes with which key (IBA volume 1, section 10.6).
namespace verbatim::region {

/// Rights of a region or window, with the values of `enum ibv_access_flags`, and what it is made
/// of.
enum Access : std::uint32_t {
  kLocalRead = 0,  // Every region has it.
  kLocalWrite = 1,
  kRemoteWrite = 2,
  kRemoteRead = 4,
  kRemoteAtomic = 8,
  kMwBind = 16,
  kZeroBased = 32,
  kOnDemand = 64,
  kFlushGlobal = 256,
  kFlushPersistent = 512,
  kImported = 1u << 30,  // Our own: of another program, at addresses at which there is nothing.
  kNull = 1u << 31,  // Our own: no memory at all; reads as zeroes, and what is written is dropped.
};
inline constexpr std::uint32_t kRemoteRights =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

struct Region {
  std::uint64_t address = 0;  // Where the bytes are in the process that registered them.
  std::uint64_t length = 0;   // Bytes.
  std::uint64_t iova = 0;     // The address that requests use for the first byte.
  std::uint32_t access = 0;   // Bits of `Access`.
  PdNumber pd{};
  Backing backing{};
};

/// Why a key does not serve a request. The order is that of the checks.
enum class KeyError : std::uint8_t {
  unknown_key,
  wrong_domain,
  missing_right,
  out_of_bounds,
  not_mapped,  // Of on-demand memory, when it is touched.
};
const char* describe(KeyError error);

/// Who asks: a queue pair in its protection domain. Where no queue pair is named, only windows of
/// type 2 are closed to it.
struct Accessor {
  // Implicit: most keys are a matter of the domain alone.
  Accessor(PdNumber domain, Qpn queue_pair = {})  // NOLINT(google-explicit-constructor)
      : pd(domain), qpn(queue_pair) {}
  PdNumber pd;
  Qpn qpn;
  friend bool operator==(const Accessor&, const Accessor&) = default;
};

/// Memory windows (IBA 10.6.7): type 1 belongs to its protection domain; type 2 (this adapter has
/// 2B) to the queue pair that bound it, and its key's lower 8 bits are the program's choice.
enum class EntryKind : std::uint8_t { unused, region, window_1, window_2 };

/// What a window is to show. A binding of no bytes ends the one that a type 1 window has.
struct WindowBinding {
  MemoryKey window{};  // Any key that the window had: the upper 24 bits name it.
  MemoryKey key{};     // Its key from now on.
  MemoryKey region{};
  std::uint64_t address = 0;  // As requests address the region: its iova.
  std::uint64_t length = 0;
  std::uint32_t access = 0;  // Remote rights, and kZeroBased.
};

/// One region or window as it lies in the shared arena: fixed size, no pointers of our own. A
/// window that is not bound has no key.
///
/// Two sides meet here, in any process: who holds raises `holders` and then looks at `key` again;
/// who removes clears `key` and then looks at `holders`. Each writes one word and reads the
/// other's, so all four accesses are sequentially consistent: at least one side sees the other.
/// Either the holder sees the cleared key and lets go without having read `region`, or the remover
/// sees the holder and waits.
///
/// A visitor (`RegionTable::visit`) writes nothing here: it looks at `key` under a lock of its own,
/// and who removes waits, after clearing `key`, until each such lock was free once.
///
/// All other fields are written under the table's lock while `key` is zero
/// and nobody holds or visits; storing the new `key` publishes them. A holder's last decrement is a
/// release, which the remover's reading of zero acquires: all copying is over before the memory is
/// given back.
struct alignas(64) RegionEntry {
  std::atomic<std::uint32_t> key{0};
  std::atomic<std::uint32_t> holders{0};
  Region region;  // Of a window: what it shows.
  std::uint32_t generation = 0;
  std::uint32_t next_free = 0;
  std::uint32_t windows = 0;  // Of a region: the windows bound to it.
  std::uint32_t parent = 0;   // Of a bound window: its region's index + 1.
  Qpn qpn;                    // Of a bound window of type 2: its queue pair.
  EntryKind kind{};
};
static_assert(sizeof(RegionEntry) == 128, "the second cache line is the backing, for peers");

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
  std::uint32_t bound_windows = 0;      // Of type 2.
  std::uint64_t secret = 0;             // Keys the permutation of indexes and the random bits.
  std::uint64_t additions = 0;  // Regions ever entered: what the random bits are drawn from.
};

/// Whether [iova, iova + length) lies in the region. No sum is formed, so none can overflow.
inline bool contains(const Region& region, std::uint64_t iova, std::uint64_t length) {
  return iova >= region.iova && length <= region.length &&
         iova - region.iova <= region.length - length;
}
/// Where that byte is in the process that registered the region.
inline std::uint64_t address_in(const Region& region, std::uint64_t iova) {
  return region.address + (iova - region.iova);
}
class RegionTable;

/// Where the last key was found: a key names the same entry for ever, whatever that holds now. Of
/// one table and one thread at a time.
class KeyCache {
  friend class RegionTable;
  MemoryKey key_{};
  RegionEntry* entry_ = nullptr;
};

/// The right to touch the bytes of a region: while it lives, the region is not deregistered.
class Hold {
 public:
  Hold() = default;
  Hold(RegionEntry* entry, std::byte* address) : entry_(entry), address_(address) {}
  /// Of who visits (`RegionTable::visit`): it holds nothing itself. The bytes are in the region.
  static Hold without_reference(const Region& region, std::uint64_t iova);
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  ~Hold();
  /// The first byte asked for, in the registering process's address space. Touch it only where
  /// `backing` says that memory is there.
  std::byte* address() const { return address_; }
  /// What lies behind the bytes: memory that stays; memory that the program may unmap at any time;
  /// another program's; none (a null region).
  enum class Backing : std::uint8_t { memory, on_demand, imported, nothing };
  Backing backing() const { return backing_; }
  /// From now on it is for these bytes. False, and unchanged, where the region does not have them.
  bool move_to(std::uint64_t iova, std::uint64_t length);
  /// The same from `offset` bytes on, for as long as this one lives.
  Hold subrange(std::uint64_t offset) const;

 private:
  friend class RegionTable;
  RegionEntry* entry_ = nullptr;  // Not owned; in the arena, outlives the hold.
  std::byte* address_ = nullptr;
  Backing backing_ = Backing::memory;
};

/// The regions and windows of one process. Any thread may call anything. The table is a view: it
/// owns neither header nor entries.
class RegionTable {
 public:
  /// `entries` are zeroed memory when `initialise` is called; at most 2^20 of them. `secret` is
  /// random and stays in the arena. A view is made after `initialise`, in any process. Who only
  /// `visits` says so: a holder that is killed would hold for ever.
  enum class Use : std::uint8_t { holds, lookup_only };
  RegionTable(RegionTableHeader& header, std::span<RegionEntry> entries, Use use = Use::holds);
  /// Who visits (see `visit`): `wait_for_peers` and `wait_for_own` return when everybody of that
  /// kind has left who visited when they were called. Peers visit regions and windows, with remote
  /// keys; the program's own threads visit regions only, with local keys, and may end the binding
  /// of a window while they do.
  struct GracePeriod {
    std::function<void()> wait_for_peers;
    std::function<void()> wait_for_own;
  };
  void set_grace_period(GracePeriod grace_period) { grace_period_ = std::move(grace_period); }
  static void initialise(RegionTableHeader& header, std::uint64_t secret);

  /// Enters a region and returns its key: both lkey and rkey, never 0. ENOMEM when the table is
  /// full, EINVAL when the addresses wrap. A region of no bytes is allowed: it serves requests of
  /// no bytes.
  Result<MemoryKey> add(const Region& region);
  /// Takes the region out; waits until nobody holds it, so the caller must not hold it. EINVAL for
  /// an unknown key, also when another thread has just removed it; EBUSY while windows are bound to
  /// it.
  Result<void> remove(MemoryKey key);
  /// The region with this key is another from now on, under the same key; waits as `remove` does.
  /// EINVAL, EBUSY as there; then the region is as it was.
  Result<void> change(MemoryKey key, const Region& region);
  /// The region with this key has another as well, that of a region of another program. EEXIST
  /// where something has it. It goes with `remove_alias`. This view alone knows of it.
  Result<void> add_alias(MemoryKey alias, MemoryKey key);
  void remove_alias(MemoryKey alias);
  MemoryKey key_behind(MemoryKey alias) const { return resolve(alias); }
  /// What the region with this key is. Nothing for an unknown key.
  std::optional<Region> find_region(MemoryKey key) const;

  // Windows: region_windows.cpp.
  /// A new window, not bound. Its key names it, but opens nothing.
  Result<MemoryKey> add_window(EntryKind type, PdNumber pd);
  /// Ends the binding, if any, and the window. Waits as `remove` does. EINVAL: there is none.
  Result<void> remove_window(MemoryKey window);
  /// EINVAL, in words that name the rule, where IBA 10.6.7.2 forbids it; then nothing has changed.
  /// Waits until nobody touches bytes through the binding that ends.
  Result<void> bind(const WindowBinding& binding, const Accessor& by);
  /// Ends the binding of the type 2 window with this key: local and remote invalidation.
  std::expected<void, KeyError> invalidate(MemoryKey key, const Accessor& by);
  /// Whether `invalidate` would do it.
  std::expected<void, KeyError> check_invalidation(MemoryKey key, const Accessor& by) const;
  /// A queue pair has gone: so have the bindings of its type 2 windows.
  void unbind_all(Qpn qpn);

  /// Checks in the order of KeyError, without holding: an engine's question; of a view that visits
  /// under the visitor's lock. A request of no bytes needs no key (IBA C9-88, o9-20), so callers do
  /// not ask then.
  std::expected<void, KeyError> check(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                      std::uint32_t rights, const Accessor& by) const;
  /// The same of the key alone, whatever the bytes.
  std::expected<void, KeyError> check_key(MemoryKey key, std::uint32_t rights,
                                          const Accessor& by) const;
  /// Checks and holds.
  std::expected<Hold, KeyError> hold(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                     std::uint32_t rights, const Accessor& by) const;
  /// Checks as `hold` does, for one who holds a lock that the table's owner waits for (see
  /// `GracePeriod`): the answer is good until that lock is let go. Nothing in the table is written.
  std::expected<const Region*, KeyError> find_locked(MemoryKey key, std::uint64_t iova,
                                                     std::uint64_t length, std::uint32_t rights,
                                                     const Accessor& by, KeyCache& cache) const;
  /// The region itself, where it is of the domain.
  std::expected<const Region*, KeyError> find_region_locked(MemoryKey key, PdNumber pd) const;
  /// The same of the key alone, and of ending the binding of a window.
  std::expected<void, KeyError> check_key_locked(MemoryKey key, std::uint32_t rights,
                                                 const Accessor& by) const;
  std::expected<void, KeyError> check_invalidation_locked(MemoryKey key, const Accessor& by) const;
  std::uint32_t count() const;

 private:
  MemoryKey resolve(MemoryKey key) const {
    return alias_count_.load(std::memory_order_relaxed) == 0 ? key : resolve_alias(key);
  }
  MemoryKey resolve_alias(MemoryKey key) const;
  RegionEntry* find(MemoryKey key) const;
  RegionEntry* find(MemoryKey key, KeyCache& cache) const;
  RegionEntry* entry_at(MemoryKey key) const;
  RegionEntry* find_window(MemoryKey window) const;
  std::expected<Hold, KeyError> enter(MemoryKey key) const;
  std::expected<Hold, KeyError> enter(MemoryKey key, std::uint32_t rights,
                                      const Accessor& by) const;
  Result<MemoryKey> claim(const Region& region, EntryKind kind);
  Result<RegionEntry*> close(MemoryKey key);
  RegionEntry* allocate();
  void release(RegionEntry& entry);
  Result<const RegionEntry*> check_binding(const RegionEntry& window, const WindowBinding& binding,
                                           const Accessor& by) const;
  void unbind(RegionEntry& window);
  void drain(const RegionEntry& entry) const;
  std::uint32_t index_of(const RegionEntry& entry) const {
    return static_cast<std::uint32_t>(&entry - entries_.data());
  }

  RegionTableHeader& header_;
  std::span<RegionEntry> entries_;
  KeyPermutation permutation_;
  Use use_;
  GracePeriod grace_period_;
  std::atomic<std::uint32_t> alias_count_{0};
  mutable std::shared_mutex aliases_lock_;  // Guards what follows.
  std::map<MemoryKey, MemoryKey> aliases_;
};

// What the direct path does for each request.

inline Hold::Backing backing_of(std::uint32_t access) {
  if ((access & kNull) != 0) return Hold::Backing::nothing;
  if ((access & kImported) != 0) return Hold::Backing::imported;
  return (access & kOnDemand) != 0 ? Hold::Backing::on_demand : Hold::Backing::memory;
}

/// Why the entry does not give these rights.
inline std::optional<KeyError> refusal_of(const RegionEntry& entry, std::uint32_t rights,
                                          const Accessor& by) {
  if (entry.kind != EntryKind::region) {
    // A window's key is a remote key alone (IBA 10.6.7.1).
    if ((rights & kRemoteRights) == 0) return KeyError::unknown_key;
    if (entry.kind == EntryKind::window_2 && entry.qpn != by.qpn) return KeyError::wrong_domain;
  }
  if (entry.region.pd != by.pd) return KeyError::wrong_domain;
  if ((entry.region.access & rights) != rights) return KeyError::missing_right;
  return std::nullopt;
}

inline Hold Hold::without_reference(const Region& region, std::uint64_t iova) {
  // An address of the program, as a region has it.
  Hold unreferenced(nullptr,
                    reinterpret_cast<std::byte*>(region.address + (iova - region.iova)));  // NOLINT
  unreferenced.backing_ = backing_of(region.access);
  return unreferenced;
}

inline Hold Hold::subrange(std::uint64_t offset) const {
  Hold part(nullptr, address_ + offset);
  part.backing_ = backing_;
  return part;
}

inline Hold::~Hold() {
  if (entry_ != nullptr) entry_->holders.fetch_sub(1, std::memory_order_release);
}

/// The entry that the key would be in, if it carries this key now.
inline RegionEntry* RegionTable::find(MemoryKey key, KeyCache& cache) const {
  key = resolve(key);
  if (cache.key_ != key || cache.entry_ == nullptr) {
    cache.entry_ = raw(key) != 0 ? entry_at(key) : nullptr;
    cache.key_ = key;
  }
  RegionEntry* const entry = cache.entry_;
  if (entry == nullptr || entry->key.load(std::memory_order_seq_cst) != raw(key)) return nullptr;
  return entry;
}

inline std::expected<const Region*, KeyError> RegionTable::find_locked(
    MemoryKey key, std::uint64_t iova, std::uint64_t length, std::uint32_t rights,
    const Accessor& by, KeyCache& cache) const {
  const RegionEntry* const entry = find(key, cache);
  if (entry == nullptr) return std::unexpected(KeyError::unknown_key);
  if (const auto wrong = refusal_of(*entry, rights, by)) return std::unexpected(*wrong);
  if (!contains(entry->region, iova, length)) return std::unexpected(KeyError::out_of_bounds);
  return &entry->region;
}

}  // namespace verbatim::region

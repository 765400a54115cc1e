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
#include "region/backing.h"
#include "region/key_permutation.h"

/// Memory regions: which bytes a key gives access to, with which rights (IBA volume 1, section
/// 10.6).
namespace verbatim::region {

/// Rights of a region or window, with the values of `enum ibv_access_flags`, and its kind of
/// memory.
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
  kImported =
      1u << 30,      // Internal: memory of another process; nothing is mapped at these addresses.
  kNull = 1u << 31,  // Internal: no memory; reads as zeroes, and writes are dropped.
};
inline constexpr std::uint32_t kRemoteRights =
    kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;

struct Region {
  std::uint64_t address = 0;  // Of the bytes in the process that registered them.
  std::uint64_t length = 0;   // Bytes.
  std::uint64_t iova = 0;     // The address that requests use for the first byte.
  std::uint32_t access = 0;   // Bits of `Access`.
  PdNumber pd{};
  Backing backing{};
};

/// Why a key does not permit a request, in the order of the checks.
enum class KeyError : std::uint8_t {
  unknown_key,
  wrong_domain,
  missing_right,
  out_of_bounds,
  not_mapped,  // On-demand memory: not mapped at the time of the access.
};
const char* describe(KeyError error);

/// Identity under which keys are checked: a queue pair in its protection domain. Without a queue
/// pair, type 2 windows are refused.
struct Accessor {
  // Implicit, because most checks need only the domain.
  Accessor(PdNumber domain, Qpn queue_pair = {})  // NOLINT(google-explicit-constructor)
      : pd(domain), qpn(queue_pair) {}
  PdNumber pd;
  Qpn qpn;
  friend bool operator==(const Accessor&, const Accessor&) = default;
};

/// Memory windows (IBA 10.6.7). A type 1 window belongs to its protection domain; a type 2 window
/// (here of kind 2B) to the queue pair that bound it, and the program chooses the lower 8 bits of
/// its key.
enum class EntryKind : std::uint8_t { unused, region, window_1, window_2 };

/// Parameters of a bind. A bind of 0 bytes ends a type 1 window's binding.
struct WindowBinding {
  MemoryKey window{};  // Any key that the window has had: the upper 24 bits identify it.
  MemoryKey key{};     // Its new key.
  MemoryKey region{};
  std::uint64_t address = 0;  // In the region's address space for requests (iova).
  std::uint64_t length = 0;
  std::uint32_t access = 0;  // Remote rights, and kZeroBased.
};

/// A region or window in the shared arena: fixed size, without pointers. An unbound window has no
/// key.
///
/// Holders and the remover, in any processes, synchronise like this. A holder increments `holders`
/// and then reads `key` again; the remover clears `key` and then reads `holders`. Each writes one
/// word and reads the other's, so all four accesses are sequentially consistent: at least one side
/// sees the other. Either the holder sees the cleared key and releases without having read
/// `region`, or the remover sees the holder and waits.
///
/// A lookup under a lock (`RegionTable::find_locked`) writes nothing here. The remover clears `key`
/// and then waits until each of those locks has been free once, as for an RCU grace period.
///
/// All other fields are written under the table's lock while `key` is zero and neither a reference
/// nor a lookup is left; storing the new `key` publishes them. A holder's last decrement is a
/// release, which the remover's read of zero acquires: all copying has ended before the memory is
/// returned.
struct alignas(64) RegionEntry {
  std::atomic<std::uint32_t> key{0};
  std::atomic<std::uint32_t> holders{0};
  Region region;  // Window: the part that it gives access to.
  std::uint32_t generation = 0;
  std::uint32_t next_free = 0;
  std::uint32_t windows = 0;  // Region: number of windows bound to it.
  std::uint32_t parent = 0;   // Bound window: index of its region + 1.
  Qpn qpn;                    // Bound type 2 window: its queue pair.
  EntryKind kind{};
};
static_assert(sizeof(RegionEntry) == 128, "the first cache line is all that most requests read");

/// The table's other data, also in the arena. All fields except `used` and `count` are protected by
/// `lock`.
struct RegionTableHeader {
  SpinLock lock;
  std::uint32_t first_free = 0;  // Index + 1 of a freed entry; 0 for none.
  /// Number of entries that were ever used. The rest is untouched memory, which a lookup must not
  /// read, because that would make the arena larger. Written under `lock`; relaxed, because it only
  /// grows and the entry's key decides.
  std::atomic<std::uint32_t> used{0};
  std::atomic<std::uint32_t> count{
      0};                           // Live regions, for statistics: relaxed. Written under `lock`.
  std::uint32_t bound_windows = 0;  // Type 2 only.
  std::uint64_t secret = 0;         // Keys the permutation of indexes and the random bits.
  std::uint64_t additions = 0;      // Regions ever added: the counter for the random bits.
};

/// Returns true if [iova, iova + length) is in the region. Computes no sum that could overflow.
inline bool contains(const Region& region, std::uint64_t iova, std::uint64_t length) {
  return iova >= region.iova && length <= region.length &&
         iova - region.iova <= region.length - length;
}
/// Returns the byte's address in the process that registered the region.
inline std::uint64_t address_in(const Region& region, std::uint64_t iova) {
  return region.address + (iova - region.iova);
}
class RegionTable;

/// Caches the entry of the last key. A key always maps to the same entry, so only the entry's
/// current key has to be compared. For one table and one thread.
class KeyCache {
  friend class RegionTable;
  MemoryKey key_{};
  RegionEntry* entry_ = nullptr;
};

/// A reference to a region: while it exists, the region's bytes may be accessed and the region is
/// not deregistered.
class Hold {
 public:
  Hold() = default;
  Hold(RegionEntry* entry, std::byte* address) : entry_(entry), address_(address) {}
  /// A Hold without a reference, for bytes of a region that was looked up under a lock
  /// (`RegionTable::find_locked`). `iova` is in the region.
  static Hold without_reference(const Region& region, std::uint64_t iova);
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  ~Hold();
  /// Address of the first byte in the registering process. May be accessed only if `backing` is
  /// memory.
  std::byte* address() const { return address_; }
  /// The kind of memory: permanent; such as the program may unmap at any time; another process's;
  /// none (a null region).
  enum class Backing : std::uint8_t { memory, on_demand, imported, nothing };
  Backing backing() const { return backing_; }
  /// Moves the hold to another range of its region. Returns false, with the hold unchanged, if the
  /// range is out of bounds.
  bool move_to(std::uint64_t iova, std::uint64_t length);
  /// A sub-range from `offset` on, without its own reference; valid while this Hold exists.
  Hold subrange(std::uint64_t offset) const;

 private:
  friend class RegionTable;
  RegionEntry* entry_ = nullptr;  // Not owned; in the arena, outlives the hold.
  std::byte* address_ = nullptr;
  Backing backing_ = Backing::memory;
};

/// The regions and windows of one process. Thread-safe. It is a view, which owns neither header nor
/// entries.
class RegionTable {
 public:
  /// `entries` must be zeroed before `initialise`; at most 2^20. `secret` is random and stays in
  /// the arena. Construct a view after `initialise`, in any process. `Use::lookup_only`: the view
  /// never takes references, because a killed process would never release them.
  enum class Use : std::uint8_t { holds, lookup_only };
  RegionTable(RegionTableHeader& header, std::span<RegionEntry> entries, Use use = Use::holds);
  /// How `remove` waits for lookups that hold a lock instead of a reference (see `find_locked`):
  /// each function returns when every such lock that was held at the call has been released.
  /// wait_for_peers: peers, on regions and windows. wait_for_own: this process's threads, on
  /// regions; they may take the table's lock meanwhile, so the caller must not hold it.
  struct GracePeriod {
    std::function<void()> wait_for_peers;
    std::function<void()> wait_for_own;
  };
  void set_grace_period(GracePeriod grace_period) { grace_period_ = std::move(grace_period); }
  static void initialise(RegionTableHeader& header, std::uint64_t secret);

  /// Adds a region and returns its key, which is lkey and rkey, never 0. ENOMEM if the table is
  /// full, EINVAL if the addresses wrap around. An empty region is allowed, for requests of 0
  /// bytes.
  Result<MemoryKey> add(const Region& region);
  /// Removes the region. Waits until no reference is left, so the caller must not have one. EINVAL
  /// for an unknown key, also if another thread has just removed it; EBUSY while windows are bound
  /// to it.
  Result<void> remove(MemoryKey key);
  /// Replaces the region of `key`, keeping the key (ibv_rereg_mr). Waits as `remove` does. EINVAL,
  /// EBUSY as there; then nothing has changed.
  Result<void> change(MemoryKey key, const Region& region);
  /// Makes the region of `key` reachable under `alias` too: the key that an imported region has at
  /// its exporter. EEXIST if `alias` is in use. Only this view knows the alias; `remove_alias`
  /// removes it.
  Result<void> add_alias(MemoryKey alias, MemoryKey key);
  void remove_alias(MemoryKey alias);
  MemoryKey key_behind(MemoryKey alias) const { return resolve(alias); }
  /// Returns the region with this key; nothing if the key is unknown.
  std::optional<Region> find_region(MemoryKey key) const;
  /// Publishes that `moved` bytes of the region, from `address` on, are in the memory file: in its
  /// entry, and in those of the windows bound to it. Returns false if the key does not name this
  /// memory any more.
  bool set_moved(MemoryKey key, std::uint64_t address, std::uint64_t moved);
  /// Peers pay anew, up to `price` (Backing).
  void set_price(MemoryKey key, std::uint64_t price);
  /// Returns true if some region with one of these rights or kinds has bytes in the range.
  bool any_overlaps(std::uint64_t address, std::uint64_t length, std::uint32_t access) const;
  /// Requires the lock of `find_locked`. Adds to what peers have paid for the use of the region
  /// (Backing), or for a window's region. Returns that region's key if its owner should move it;
  /// else 0.
  MemoryKey pay(const Region& region, std::uint64_t nanoseconds) const;

  // Windows: region_windows.cpp.
  /// Adds an unbound window. Its key identifies it, but gives no access.
  Result<MemoryKey> add_window(EntryKind type, PdNumber pd);
  /// Removes the window, and its binding if any. Waits as `remove` does. EINVAL if there is none.
  Result<void> remove_window(MemoryKey window);
  /// Binds a window. EINVAL, with a text that names the rule, if IBA 10.6.7.2 forbids it; then
  /// nothing has changed. Waits until no access through the previous binding is left.
  Result<void> bind(const WindowBinding& binding, const Accessor& by);
  /// Ends the binding of the type 2 window with this key: local and remote invalidation.
  std::expected<void, KeyError> invalidate(MemoryKey key, const Accessor& by);
  /// Returns whether `invalidate` would succeed.
  std::expected<void, KeyError> check_invalidation(MemoryKey key, const Accessor& by) const;
  /// A queue pair was destroyed: ends the bindings of its type 2 windows.
  void unbind_all(Qpn qpn);

  /// Checks in the order of KeyError and takes no reference: for engines. A view of
  /// `Use::lookup_only` requires the lock described at `find_locked`. Requests of 0 bytes need no
  /// key (IBA C9-88, o9-20): do not call.
  std::expected<void, KeyError> check(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                      std::uint32_t rights, const Accessor& by) const;
  /// The same for the key only, whatever the bytes.
  std::expected<void, KeyError> check_key(MemoryKey key, std::uint32_t rights,
                                          const Accessor& by) const;
  /// Checks and takes a reference.
  std::expected<Hold, KeyError> hold(MemoryKey key, std::uint64_t iova, std::uint64_t length,
                                     std::uint32_t rights, const Accessor& by) const;
  /// Checks as `hold` does, but takes no reference. Requires a lock that `remove` waits for (see
  /// `GracePeriod`); the result is valid until that lock is released. Writes nothing to the table.
  std::expected<const Region*, KeyError> find_locked(MemoryKey key, std::uint64_t iova,
                                                     std::uint64_t length, std::uint32_t rights,
                                                     const Accessor& by, KeyCache& cache) const;
  /// Returns the region with this key, if it belongs to the domain.
  std::expected<const Region*, KeyError> find_region_locked(MemoryKey key, PdNumber pd) const;
  /// The same for the key only, and for invalidating a window.
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
  mutable std::shared_mutex aliases_lock_;  // Protects the members below.
  std::map<MemoryKey, MemoryKey> aliases_;
};

// Inlined for the direct path, which calls these for each request.

inline Hold::Backing backing_of(std::uint32_t access) {
  if ((access & kNull) != 0) return Hold::Backing::nothing;
  if ((access & kImported) != 0) return Hold::Backing::imported;
  return (access & kOnDemand) != 0 ? Hold::Backing::on_demand : Hold::Backing::memory;
}

/// Returns why the entry does not give these rights.
inline std::optional<KeyError> refusal_of(const RegionEntry& entry, std::uint32_t rights,
                                          const Accessor& by) {
  if (entry.kind != EntryKind::region) {
    // A window's key is only a remote key (IBA 10.6.7.1).
    if ((rights & kRemoteRights) == 0) return KeyError::unknown_key;
    if (entry.kind == EntryKind::window_2 && entry.qpn != by.qpn) return KeyError::wrong_domain;
  }
  if (entry.region.pd != by.pd) return KeyError::wrong_domain;
  if ((entry.region.access & rights) != rights) return KeyError::missing_right;
  return std::nullopt;
}

inline Hold Hold::without_reference(const Region& region, std::uint64_t iova) {
  // The address in the program's own memory, as the region has it.
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

/// Returns the entry of the key, if it has this key now.
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

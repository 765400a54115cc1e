#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "region/region_table.h"

/// Access to the bytes of a held region, whatever kind of memory is behind them. Permanent memory
/// is copied directly. On-demand memory, which the program may unmap at any moment, is copied by
/// the kernel, which reports a missing page instead of a fault. A null region reads as zeroes.
namespace verbatim::region {

/// Copies between `here` and another process's memory, which an imported region refers to. Returns
/// false if its owner has ended or refuses.
using CopyImported = bool (*)(std::uint64_t address, std::byte* here, std::uint64_t length,
                              bool to_owner);
/// Called by the importer before the first imported region is added (Hold::Backing::imported).
/// Without it, all accesses to them are refused.
void set_copy_imported(CopyImported copy);

/// Used by `read_held` and `write_held` unless the memory is permanent. Return false if some of it
/// is missing; then a part may have been copied.
bool read_checked(const Hold& hold, MutableByteSpan to);
bool write_checked(const Hold& hold, ByteSpan from);

/// Writes the last bytes last (`copy_in_order`).
inline bool write_held(const Hold& hold, ByteSpan from) {
  if (hold.backing() != Hold::Backing::memory) return write_checked(hold, from);
  copy_in_order(hold.address(), from);
  return true;
}

/// The same while no thread of the program is in a call. Then the program may be unmapping
/// permanent memory before it deregisters it, as UCX does with its buffers. A card writes into
/// pages that it has pinned, and nobody sees that: so here missing pages take the bytes, too. A
/// system call.
bool write_unattended(const Hold& hold, ByteSpan from);

/// Writes the last bytes of `to` last, too: `to` may be a peer's memory.
inline bool read_held(const Hold& hold, MutableByteSpan to) {
  if (hold.backing() != Hold::Backing::memory) return read_checked(hold, to);
  copy_in_order(to.data(), ByteSpan(hold.address(), to.size()));
  return true;
}

/// Returns the 8 aligned bytes for an atomic operation; null if the memory is missing, or imported.
/// For a null region returns `zero`, which the caller provides. On-demand memory is checked first:
/// if the program unmaps it right then, the access faults.
std::uint64_t* word_of(const Hold& hold, std::uint64_t& zero);

/// Both return the old value.
inline std::uint64_t compare_and_swap(std::uint64_t& word, std::uint64_t compare,
                                      std::uint64_t swap) {
  // On failure the builtin stores what it found, so `compare` has the old value either way.
  __atomic_compare_exchange_n(&word, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}
inline std::uint64_t fetch_and_add(std::uint64_t& word, std::uint64_t add) {
  return __atomic_fetch_add(&word, add, __ATOMIC_SEQ_CST);
}

}  // namespace verbatim::region

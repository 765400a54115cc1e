#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "region/region_table.h"

/// Touching the bytes of a region that is held, whatever lies behind it: memory that stays is
/// copied directly; on-demand memory, which the program may unmap at any moment, by the kernel,
/// which reports a missing page instead of a fault; a null region reads as zeroes.
namespace verbatim::region {

/// Copies between here and memory of another program, which an imported region lies over. False
/// where its owner has ended or refuses.
using CopyImported = bool (*)(std::uint64_t address, std::byte* here, std::uint64_t length,
                              bool to_owner);
/// By who imports, before the first region is (Hold::Backing::imported). Without one all of them
/// refuse.
void set_copy_imported(CopyImported copy);

/// What `read_held` and `write_held` do where no memory stays. False where some of it is gone; then
/// part may have been copied.
bool read_checked(const Hold& hold, MutableByteSpan to);
bool write_checked(const Hold& hold, ByteSpan from);

/// The last bytes last (`copy_in_order`).
inline bool write_held(const Hold& hold, ByteSpan from) {
  if (hold.backing() != Hold::Backing::memory) return write_checked(hold, from);
  copy_in_order(hold.address(), from);
  return true;
}

/// Also the last bytes last: `to` may be a peer's memory.
inline bool read_held(const Hold& hold, MutableByteSpan to) {
  if (hold.backing() != Hold::Backing::memory) return read_checked(hold, to);
  copy_in_order(to.data(), ByteSpan(hold.address(), to.size()));
  return true;
}

/// The 8 aligned bytes that are held, for an atomic operation: null where the memory is gone, or
/// elsewhere. Of a null region `zero`, which the caller gives. On-demand memory is only looked at
/// before: a program that unmaps it in the very moment between gets the fault.
std::uint64_t* word_of(const Hold& hold, std::uint64_t& zero);

/// Both answer with the value before.
inline std::uint64_t compare_and_swap(std::uint64_t& word, std::uint64_t compare,
                                      std::uint64_t swap) {
  // On failure the builtin stores what it found: the value before, either way.
  __atomic_compare_exchange_n(&word, &compare, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}
inline std::uint64_t fetch_and_add(std::uint64_t& word, std::uint64_t add) {
  return __atomic_fetch_add(&word, add, __ATOMIC_SEQ_CST);
}

}  // namespace verbatim::region

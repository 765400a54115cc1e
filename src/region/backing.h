#pragma once

#include <cstdint>
#include <limits>

namespace verbatim::region {

/// Where peers find the bytes of a region, and what their use of it has cost so far.
///
/// A byte's address is its offset in the memory file. From the region's first whole page on,
/// `length` bytes are in the file, where peers map them; the kernel copies all others. The owner
/// only lets `length` grow while peers read it. What peers pay for the kernel's copies adds up in
/// `paid`; from `price` on they ask the owner to move the pages (adapter/memory/adoption.h).
struct Backing {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t paid = 0;  // Nanoseconds, like the next one.
  std::uint64_t price = kNever;

  std::uint64_t moved() const { return __atomic_load_n(&length, __ATOMIC_ACQUIRE); }
};

}  // namespace verbatim::region

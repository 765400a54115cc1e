#pragma once

#include <cstdint>

namespace verbatim::region {

/// Bytes of a process that are in its memory file, where peers can map them.
struct Extent {
  std::uint64_t address = 0;  // In the owner's address space.
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  // Of the first byte in the file.
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Where peers find the bytes of a region: its extents, in order. Bytes outside all extents can
/// only be copied by the kernel.
struct Backing {
  Extent first;  // With length 0: there is none.
  // Offset in the arena of the list of all extents; 0: there is at most one.
  std::uint64_t all = 0;
  std::uint32_t count = 0;
  friend bool operator==(const Backing&, const Backing&) = default;
};

}  // namespace verbatim::region

#pragma once

#include <cstdint>

namespace verbatim::region {

/// Bytes of a process that lie in its memory file, where peers can map them.
struct Extent {
  std::uint64_t address = 0;  // In the process that owns them.
  std::uint64_t length = 0;
  std::uint64_t offset = 0;  // Of the first byte in the file.
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Where peers find the bytes of a region: its extents, in order; what is in none of them is
/// reached through the kernel alone.
struct Backing {
  Extent first;           // Without length: there is none.
  std::uint64_t all = 0;  // Where in the arena all of them lie, from its start; 0: one at most.
  std::uint32_t count = 0;
  friend bool operator==(const Backing&, const Backing&) = default;
};

}  // namespace verbatim::region

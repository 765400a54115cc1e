#pragma once

#include <cstdint>

namespace verbatim::arena {

/// Location in the arena, in bytes from its start; 0: none.
template <typename T>
struct Offset {
  std::uint64_t value = 0;
  explicit operator bool() const { return value != 0; }
};

}  // namespace verbatim::arena

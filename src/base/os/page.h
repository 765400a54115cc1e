#pragma once

#include <cstdint>

#include <unistd.h>

namespace verbatim {

/// Returns the size of the kernel's pages: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
inline std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace verbatim

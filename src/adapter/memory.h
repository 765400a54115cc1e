#pragma once

#include <cstdint>

#include "base/error.h"

namespace verbatim::adapter {

/// Checks that [address, address + length) is mapped, readable and, where asked, writable, and
/// makes it resident as a card's pinning would (MADV_POPULATE_READ/WRITE; where the kernel lacks
/// it, by other means). EFAULT in words that name the range; EINVAL where it wraps. A range of no
/// bytes needs no memory.
Result<void> populate_memory(std::uint64_t address, std::uint64_t length, bool writable);

/// The same, page by page, with system calls that any kernel has: what populate_memory does where
/// MADV_POPULATE is missing (before Linux 5.14) or refuses, to name the page. Never faults, never
/// changes a byte, whatever other threads do.
Result<void> probe_memory(std::uint64_t address, std::uint64_t length, bool writable);

}  // namespace verbatim::adapter

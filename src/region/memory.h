#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "base/error.h"

namespace verbatim::region {

/// Checks that [address, address + length) is mapped, readable and, where asked, writable, and
/// makes it resident as a card's pinning would (MADV_POPULATE_READ/WRITE; where the kernel lacks
/// it, by other means). EFAULT in words that name the range; EINVAL where it wraps. A range of no
/// bytes needs no memory.
Result<void> populate_memory(std::uint64_t address, std::uint64_t length, bool writable);

/// The same, page by page, with system calls that any kernel has: what populate_memory does where
/// MADV_POPULATE is missing (before Linux 5.14) or refuses, to name the page. Never faults, never
/// changes a byte, whatever other threads do.
Result<void> probe_memory(std::uint64_t address, std::uint64_t length, bool writable);

/// Copies between here and the memory of a process, this one or another of the same user, by the
/// kernel: to there (process_vm_writev(2)), the last bytes last (see `copy_in_order`), or from
/// there. False at the first page that is missing, with errno; then part may have been copied.
bool copy_by_kernel(pid_t process, std::byte* here, std::uint64_t there, std::uint64_t length,
                    bool to_there);

}  // namespace verbatim::region

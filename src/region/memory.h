#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "base/error.h"

namespace verbatim::region {

/// Checks that [address, address + length) is mapped, readable and, if asked, writable, and makes
/// it resident, as a card's pinning does (MADV_POPULATE_READ/WRITE, or other means on older
/// kernels). EFAULT with a text that names the range; EINVAL if it wraps around. An empty range
/// needs no memory.
Result<void> populate_memory(std::uint64_t address, std::uint64_t length, bool writable);

/// The same page by page, with system calls that every kernel has. populate_memory uses it if
/// MADV_POPULATE is missing (before Linux 5.14), or has failed, to name the page. Never faults and
/// never changes a byte, whatever other threads do.
Result<void> probe_memory(std::uint64_t address, std::uint64_t length, bool writable);

/// Copies between `here` and the memory of a process, this one or another of the same user, by the
/// kernel: to there (process_vm_writev(2)) with the last bytes last (see `copy_in_order`), or from
/// there. Returns false at the first missing page, with errno; then a part may have been copied.
bool copy_by_kernel(pid_t process, std::byte* here, std::uint64_t there, std::uint64_t length,
                    bool to_there);

}  // namespace verbatim::region

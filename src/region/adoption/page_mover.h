#pragma once

#include <cstdint>

#include "base/error.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Exchanges memory of this process for other memory with the same bytes, while its threads are
/// stopped (`run_alone`). A failure changes nothing.

/// Moves the private anonymous pages of `old` to `parked`, where they leave no memory but the
/// kernel's knowledge of them, and puts the mapping at `replacement` with the same bytes in their
/// place. All are whole pages of one mapping each; the replacement is writable and resident,
/// `parked` is empty and stays mapped.
///
/// Requires that the calling thread's stack and control block are not in `old`.
Result<void> move_pages_in(const PageRange& old, std::uint64_t replacement, std::uint64_t parked);

/// Puts the private mapping at `replacement`, with the bytes of `old`, in the place of `old`, a
/// mapping of a file that the threads write to.
Result<void> move_pages_back(const PageRange& old, std::uint64_t replacement);

}  // namespace verbatim::region

#pragma once

#include <cstdint>

#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Returns true for a mapping that is what mmap(2) gives for private anonymous memory, read and
/// written, with no property that it would lose if its pages moved: not locked, advised, protected
/// by a key or bound to a node; not the main thread's stack, which grows. Requires the details
/// (`details_of`).
bool is_plain(const Mapping& mapping);

/// Returns true if the pages, which are a part of `mapping`, may move: they are plain, have no
/// thread's stack or control block, and are not what this thread runs on.
bool is_movable(const Mapping& mapping, const PageRange& pages);

}  // namespace verbatim::region

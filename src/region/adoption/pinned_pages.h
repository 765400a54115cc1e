#pragma once

#include <vector>

#include "base/error.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Whether the process holds a descriptor by which a driver or the kernel may have pinned some of
/// its memory and go on writing to the very page: io_uring, AF_XDP, files opened for direct I/O,
/// devices other than the harmless ones. True where it cannot be told.
bool may_have_pinned_pages();

/// Of private anonymous, resident memory: the runs of pages that somebody may have pinned. Pages
/// that a thread writes to meanwhile can look like it; never the other way round.
///
/// By a forked child, which lives for this call: fork(2) copies pinned pages at once, so that they
/// stay exclusively mapped, which bit 56 of /proc/self/pagemap tells of every page.
Result<std::vector<PageRange>> pinned_pages(const PageRange& pages);

}  // namespace verbatim::region

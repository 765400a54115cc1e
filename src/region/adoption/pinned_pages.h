#pragma once

#include <vector>

#include "base/error.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Returns true if the process has a descriptor with which a driver or the kernel may have pinned
/// some of its memory and may still write to the pages: io_uring, AF_XDP, files opened for direct
/// I/O, devices other than known harmless ones. Also true if this cannot be determined.
bool may_have_pinned_pages();

/// Returns the runs of pages that may be pinned, of private anonymous, resident memory. A page that
/// a thread writes meanwhile can be reported by mistake; a pinned page is never missed.
///
/// Uses a forked child, which exists during this call: fork(2) copies pinned pages at once, so that
/// they stay exclusively mapped, which bit 56 of /proc/self/pagemap shows for each page.
Result<std::vector<PageRange>> pinned_pages(const PageRange& pages);

}  // namespace verbatim::region

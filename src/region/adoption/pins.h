#pragma once

namespace verbatim::region {

/// Returns true if the process has a descriptor with which a driver or the kernel may write to
/// pages that it has pinned: io_uring, AF_XDP, files opened for direct I/O, devices other than
/// known harmless ones. Nothing stops such writes while a page moves. Also true if this cannot be
/// determined.
bool may_have_pinned_pages();

}  // namespace verbatim::region

#pragma once

#include "base/error.h"

/// Capabilities of this process in its user namespace (capabilities(7)).
namespace verbatim::cli::cluster {

/// Lets programs that this process becomes keep those that it has of CAP_SYS_ADMIN, CAP_SYS_PTRACE
/// and CAP_NET_ADMIN.
void keep_across_exec();
/// Gives up all.
void drop_capabilities();
bool has_admin_capability();

}  // namespace verbatim::cli::cluster

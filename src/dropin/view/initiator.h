#pragma once

#include <cstddef>

#include <sys/types.h>

#include "dropin/view/connection.h"
#include "dropin/view/redirect.h"

/// Logins of storage initiators (src/ulp/initiator): what a program writes to add_target of SRP or
/// to /dev/nvme-fabrics is asked of the node's daemon, which the first such program starts. Its
/// folder has the files in /sys and /dev that logins cause.
namespace verbatim::view {

/// What the path is if it is opened so; `nothing`: a plain file, or not ours. errno stays.
Opened kind_of_path(const char* path, bool writes);
/// Descriptor of what `kind_of_path` has named, or -1 and errno.
int open_of_initiator(const char* path, int flags, Opened kind);

/// Devices are plain files, links or sockets to the kernel: changes the type in a mode.
void mark_device(Opened kind, mode_t& mode);

}  // namespace verbatim::view

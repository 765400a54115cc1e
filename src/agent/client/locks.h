#pragma once

#include "base/error.h"
#include "base/files/name_locks.h"

namespace verbatim::agent {

/// Locks with names among all programs of this user and network namespace, of any node. They need
/// no agent.
Result<NameLocks> name_locks();

}  // namespace verbatim::agent

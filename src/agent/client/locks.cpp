#include "agent/client/locks.h"

#include "agent/protocol/runtime_folder.h"

namespace verbatim::agent {

Result<NameLocks> name_locks() {
  const auto folder = RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  return folder->locks();
}

}  // namespace verbatim::agent

#include "agent/client/locks.h"

#include "service/folder.h"

namespace verbatim::agent {

Result<NameLocks> name_locks() {
  const auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  return folder->locks();
}

}  // namespace verbatim::agent

#include "adapter/membership.h"

namespace verbatim::adapter {

Result<void> prepare_direct_path(Membership& membership) {
  auto memory = region::MemoryFile::create();
  if (!memory) return std::unexpected(memory.error());
  membership.memory = std::move(*memory);
  return {};
}

}  // namespace verbatim::adapter

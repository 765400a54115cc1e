#include "adapter/membership.h"

#include "base/os/peer_copies.h"

namespace verbatim::adapter {

Result<void> prepare_direct_path(Membership& membership) {
  constexpr unsigned kOwnThreads = 1;  // The background thread.
  auto memory = region::MemoryFile::create({.own_threads = kOwnThreads});
  if (!memory) return std::unexpected(memory.error());
  membership.memory = std::move(*memory);
  let_peers_copy();  // For memory outside the memory file.
  return {};
}

}  // namespace verbatim::adapter

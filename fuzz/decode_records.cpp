// Records that other processes write: a node that an agent describes, and where the peer of a
// connection is, in the arena of a program that has died. Any bytes: what is accepted is within its
// bounds, and a path is the same after it was written again.
#include <cstring>
#include <string_view>

#include "arena/flat_path.h"
#include "arena/node.h"
#include "base/assert.h"

namespace {

using namespace verbatim;

void path(const std::uint8_t* data, std::size_t size) {
  arena::FlatPath record;
  if (size < sizeof record) return;
  std::memcpy(static_cast<void*>(&record), data, sizeof record);
  const auto path = arena::path_of(record);
  if (!path) return;
  const auto again = arena::path_of(arena::flat_path_of(*path));
  VERBATIM_ASSERT(again && same_source(*path, *again) && path_text(*path) == path_text(*again));
}

void node(const std::uint8_t* data, std::size_t size) {
  arena::Node node;
  if (size < sizeof node) return;
  std::memcpy(static_cast<void*>(&node), data, sizeof node);
  const auto taken = arena::checked(node);
  if (!taken) return;
  for (const arena::GidEntry& entry : taken->gids) {
    VERBATIM_ASSERT(taken->index_of(entry.address) < taken->addresses.size());
  }
  for (const std::string_view text : {taken->name.view(), taken->device.view()}) {
    for (const char c : text) VERBATIM_ASSERT(c >= ' ' && c <= '~');
  }
  VERBATIM_ASSERT(arena::checked(*taken).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  path(data, size);
  node(data, size);
  return 0;
}

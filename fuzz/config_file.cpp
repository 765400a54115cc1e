// Any bytes as a node's file: faults are bounded and have valid line numbers, and an accepted value
// is written so that it is parsed again to the same value.

#include <string>
#include <string_view>

#include "base/assert.h"
#include "config/layers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  using namespace verbatim::config;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const Entries read = parse_entries(content);
  VERBATIM_ASSERT(read.entries.size() <= kEntriesMax && read.faults.size() <= kFaultsMax);
  unsigned line = 0;
  for (const Entry& entry : read.entries) {
    VERBATIM_ASSERT(entry.line > line && !entry.key.empty() && !entry.value.empty());
    line = entry.line;
    NodeConfig config;
    if (!apply(entry.key, entry.value, config)) continue;
    const Key& key = *find_key(entry.key);
    const std::string written = text_of(key, config);
    NodeConfig again;
    const auto applied = apply(entry.key, written, again);
    VERBATIM_ASSERT(applied && text_of(key, again) == written);
  }
  VERBATIM_ASSERT(faults_of(content).size() <= kFaultsMax);
  return 0;
}

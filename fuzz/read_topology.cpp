// Any bytes as a topology file, in either format: what is found is bounded, and what is a fabric is
// written in both formats so that it is read as the same.
#include <string_view>

#include "base/assert.h"
#include "fabric/topology/read.h"
#include "fabric/topology/write.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim::fabric;
  const Reading read = read_topology({reinterpret_cast<const char*>(data), size});
  VERBATIM_ASSERT(read.faults.size() <= kFaultsMax && read.remarks.size() <= kFaultsMax);
  if (!read.faults.empty()) return 0;
  for (const Format format : {Format::ibnetdiscover, Format::ibsim}) {
    const Reading again = read_topology(write_topology(read.topology, format));
    VERBATIM_ASSERT(again.faults.empty() && again.topology == read.topology);
  }
  return 0;
}

// Any bytes as a plan of faults: one that is taken is written so that it is taken again, as the
// same.

#include <string_view>

#include "base/assert.h"
#include "link/decorators/fault_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim::link;
  const auto plan = FaultPlan::parse({reinterpret_cast<const char*>(data), size});
  if (!plan) return 0;
  const auto again = FaultPlan::parse(plan->text());
  VERBATIM_ASSERT(again && *again == *plan);
  return 0;
}

#pragma once

#include <string_view>

#include "base/error.h"
#include "link/decorators/fault_plan.h"

namespace verbatim::cli {

/// The plan that a person wrote; one without a seed gets one, so that it can be repeated. EINVAL.
Result<link::FaultPlan> plan_with_seed(std::string_view text);

}  // namespace verbatim::cli

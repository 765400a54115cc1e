#pragma once

#include "base/error.h"
#include "service/control.h"

namespace verbatim::cli {

/// Makes what administrators have saved for the target: `targetctl restore` and `nvmetcli restore`
/// are run if there is something for them. The environment is that of programs on the node, and
/// the target runs. The error says what was not restored, and why.
Result<void> restore_target(const service::ServiceName& name);

}  // namespace verbatim::cli

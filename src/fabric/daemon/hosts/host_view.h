#pragma once

#include <string>

#include "base/error.h"
#include "fabric/protocol/messages.h"

/// A host's view of /sys: a folder into which src/dropin/view leads the path calls of programs, for
/// scripts such as ibstatus.
namespace verbatim::fabric {

/// Writes the view anew, and puts it in the place of an older one in one step.
Result<void> write_view(const std::string& folder, const protocol::HostDescription& host);

}  // namespace verbatim::fabric

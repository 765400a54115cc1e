#pragma once

#include <string_view>

#include "base/error.h"
#include "fabric/check/snapshot.h"

namespace verbatim::fabric {

/// Of the JSON that the daemon makes (fabric/daemon/tables.h). EPROTO: it is something else, or
/// names ports that there are not.
Result<Snapshot> read_snapshot(std::string_view text);

}  // namespace verbatim::fabric

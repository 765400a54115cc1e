#pragma once

#include <string>

#include "base/error.h"

namespace verbatim::cli {

/// Appends a library of the drop-ins' folder ("/rds/librdspreload.so.1") to LD_PRELOAD of this
/// process; a sanitizer's must be first.
Result<void> add_preload(const std::string& library);

}  // namespace verbatim::cli

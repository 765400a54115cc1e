#pragma once

#include <string>

#include "base/error.h"

namespace verbatim::service {

/// ENAMETOOLONG, and what helps, unless a socket's address has room for the path. `listen_at` and
/// `connect_to` know a way around that; what is preloaded into programs and other people's programs
/// do not.
Result<void> check_plain_path(const std::string& path);

}  // namespace verbatim::service

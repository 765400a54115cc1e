#pragma once

#include <string>

#include "base/error.h"

namespace verbatim::cli::nic {

/// Where a node finds a card's function, "vf2" or "CARD/vf2": "SOCKET/vf2", as its settings have
/// it. An absolute path is that already. ENOENT: no such card runs; EINVAL.
Result<std::string> place_of(const std::string& function);

}  // namespace verbatim::cli::nic

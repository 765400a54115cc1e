#pragma once

#include <string>

#include "base/error.h"
#include "service/control.h"

namespace verbatim::cli {

/// Finds the broker of the node, or of the host of a fabric, that the environment names, or starts
/// it. Returns the path of its socket for programs. `stays`: it does
/// not end with the last program.
Result<std::string> find_rds_broker(bool stays);

/// For `verbatim run --rds`: the program's AF_RDS sockets go to the broker, which lives as long as
/// the program, or `stays`.
Result<void> use_rds_library(bool stays);

}  // namespace verbatim::cli

#pragma once

#include <string>

#include "base/error.h"
#include "service/control.h"

namespace verbatim::cli {

/// The broker of the node, or of the host of a fabric, that the environment names.
service::ServiceName rds_broker_name();

/// Finds this broker, or starts it. Returns the path of its socket for programs. `stays`: it does
/// not end with the last program.
Result<std::string> find_rds_broker(bool stays);

/// For `verbatim run --rds`: the program's AF_RDS sockets go to the broker, which lives as long as
/// the program.
Result<void> use_rds_library();

}  // namespace verbatim::cli

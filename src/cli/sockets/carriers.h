#pragma once

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace verbatim::cli {

/// The options --rsockets, --sdp and --rds: what carries a program's sockets.
struct CarrierChoice {
  bool uses_rsockets = false;
  bool uses_sdp = false;
  bool uses_rds = false;
};

void add_carrier_options(CLI::App& command, CarrierChoice& choice);

/// Puts what it needs into the environment of this process, which is on the node already. An RDS
/// broker that is started for it ends with the last program, or, if it `stays`, by `rds down`.
Result<void> use_carriers(const CarrierChoice& choice, bool stays);

}  // namespace verbatim::cli

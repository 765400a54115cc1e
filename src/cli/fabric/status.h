#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace verbatim::cli {

/// What a fabric's daemon says of its nodes and links. ENOENT in words: it does not run.
Result<nlohmann::ordered_json> fabric_status(const std::string& name);

/// All tables of its nodes, as JSON (fabric/check/read_snapshot.h).
Result<std::string> fabric_tables(const std::string& name);

}  // namespace verbatim::cli

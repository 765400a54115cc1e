#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::cli {

/// Connects to the daemon of a fabric. ENOENT with a text for users: no fabric of this name runs.
Result<UniqueFd> connect_to_fabric(const std::string& name);

/// What a fabric's daemon says of its nodes and links. ENOENT in words: it does not run.
Result<nlohmann::ordered_json> fabric_status(const std::string& name);

/// All tables of its nodes, as JSON (fabric/check/read_snapshot.h).
Result<std::string> fabric_tables(const std::string& name);

}  // namespace verbatim::cli

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// What `verbatim disk list` prints of the disks' statuses.
std::string disks_text(const nlohmann::json& disks);

}  // namespace verbatim::cli

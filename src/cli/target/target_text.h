#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// What `verbatim target show` prints of a target's status.
std::string target_text(const nlohmann::json& status);

}  // namespace verbatim::cli

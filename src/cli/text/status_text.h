#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// Formats a node's status (its fields are in src/agent/README.md) as sentences and tables. Fields
/// that an agent of another release lacks are shown as "-".
std::string status_text(const nlohmann::ordered_json& node);

}  // namespace verbatim::cli

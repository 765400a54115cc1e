#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace verbatim::cli {

/// The status of a node (as src/agent/README.md lists its fields) in words and tables for a person.
/// Fields that an agent of another release lacks are shown as "-".
std::string status_text(const nlohmann::ordered_json& node);

}  // namespace verbatim::cli

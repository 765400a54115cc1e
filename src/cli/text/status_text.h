#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// Formats the status of a node (its fields are in src/agent/README.md) as sentences and tables, or
/// that of a service ("service", "name", "process", "seconds" and members of its own): numbers and
/// texts as they are, of lists how long they are. What does not answer has an "error" instead.
/// Fields that an agent of another release lacks are shown as "-".
std::string status_text(const nlohmann::ordered_json& one);

}  // namespace verbatim::cli

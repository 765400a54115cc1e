#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// What `verbatim ipoib show` prints of an interface.
std::string ipoib_text(const nlohmann::json& status);
/// One line a neighbour, in the form of `ip neigh`.
std::string neighbours_text(const nlohmann::json& status);

}  // namespace verbatim::cli

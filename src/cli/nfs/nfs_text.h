#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// What `verbatim nfs show` prints of a gateway's status.
std::string nfs_text(const nlohmann::json& status);

}  // namespace verbatim::cli

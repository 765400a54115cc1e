#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

/// What `verbatim rds show` prints of a broker.
std::string rds_text(const nlohmann::json& status);

}  // namespace verbatim::cli

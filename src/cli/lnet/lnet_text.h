#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace verbatim::cli {

std::string lnet_text(const nlohmann::json& status);
/// Of what a ping, or a test, has answered.
std::string ping_text(const std::string& nid, const nlohmann::json& result);
std::string test_text(const nlohmann::json& result, std::uint64_t bytes);

}  // namespace verbatim::cli

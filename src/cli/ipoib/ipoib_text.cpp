#include "cli/ipoib/ipoib_text.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

std::string word(const nlohmann::json& from, const char* key) {
  return from.value(key, std::string());
}

}  // namespace

std::string ipoib_text(const nlohmann::json& status) {
  const bool has_carrier = status.value("carrier", false);
  std::string text = fmt::format("{}: {} mode, mtu {}, P_Key {}, {}\n", word(status, "interface"),
                                 word(status, "mode"), status.value("mtu", 0), word(status, "pkey"),
                                 has_carrier ? "carrier" : "no carrier");
  if (status.contains("why")) text += fmt::format("  {}\n", word(status, "why"));
  text += fmt::format("  address {}\n", word(status, "address"));
  const auto connections = status.value("connections", nlohmann::json::array());
  for (const auto& one : connections)
    text += fmt::format("  connection to {}: {}\n", word(one, "address"), word(one, "state"));
  const auto groups = status.value("groups", nlohmann::json::array());
  for (const auto& group : groups) {
    if (!group.value("joined", false)) continue;
    text += fmt::format("  group {}{}\n", word(group, "gid"),
                        group.value("receives", false) ? "" : ", only sends");
  }
  const auto counters = status.value("counters", nlohmann::json::object());
  for (const auto& [name, value] : counters.items()) {
    if (value != 0) text += fmt::format("  {} {}\n", name, value.dump());
  }
  return text;
}

std::string neighbours_text(const nlohmann::json& status) {
  std::string text;
  const auto neighbours = status.value("neighbours", nlohmann::json::array());
  for (const auto& one : neighbours) {
    const std::string address = word(one, "address");
    text += fmt::format("{} dev {} {}{}\n", word(one, "ip"), word(status, "interface"),
                        address.empty() ? "" : "lladdr " + address + " ", word(one, "state"));
  }
  return text;
}

}  // namespace verbatim::cli

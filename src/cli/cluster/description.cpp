#include "cli/cluster/description.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "service/control.h"
#include "service/folder.h"

namespace verbatim::cli::cluster {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Node, name, address, host, holder, network)

void to_json(nlohmann::json& json, const Description& description) {
  json = {{"name", description.name},
          {"slots", description.slots},
          {"protocol", description.protocol},
          {"fabric", description.fabric},
          {"nodes", nlohmann::json::array()}};
  for (const Node& node : description.nodes) json["nodes"].push_back(nlohmann::json(node));
}

void from_json(const nlohmann::json& json, Description& description) {
  json.at("name").get_to(description.name);
  json.at("slots").get_to(description.slots);
  json.at("protocol").get_to(description.protocol);
  json.at("fabric").get_to(description.fabric);
  for (const auto& node : json.at("nodes")) description.nodes.push_back(node.get<Node>());
}

Result<Node> Description::find(std::string_view text) const {
  for (const Node& node : nodes) {
    if (text == node.name || text == node.address || (text == node.host && !text.empty())) {
      return node;
    }
  }
  std::vector<std::string> names;
  for (const Node& node : nodes) names.push_back(node.name);
  return refuse(ENOENT, fmt::format("cluster '{}' has no node '{}'; it has {}", name, text,
                                    fmt::join(names, " ")));
}

Result<std::string> file_of(const std::string& name, const char* ending) {
  const auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  return fmt::format("{}/cluster+{}.{}", folder->path(), name, ending);
}

Result<Description> description_of(const std::string& name) {
  const char* const own = std::getenv(kVariable);
  auto path = own != nullptr ? Result<std::string>(own) : file_of(name, "json");
  if (!path) return std::unexpected(path.error());
  std::ifstream file(*path);
  if (!file) {
    return refuse(ENOENT, fmt::format("no cluster '{}' runs: 'verbatim cluster up' starts one",
                                      own != nullptr ? own : name));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return nlohmann::json::parse(text).get<Description>();
  } catch (const nlohmann::json::exception& error) {
    return refuse(EPROTO, fmt::format("{}: {}", *path, error.what()));
  }
}

}  // namespace verbatim::cli::cluster

#include "agent/client/options.h"

#include <algorithm>
#include <cstdlib>

#include "config/layers.h"
#include "service/folder.h"

namespace verbatim::agent {

Result<AgentOptions> AgentOptions::from_environment() {
  AgentOptions options;
  if (const char* node = std::getenv("VERBATIM_NODE"); node != nullptr && *node != '\0') {
    options.node = node;
  }
  if (auto fitting = service::check_node_name(options.node); !fitting) {
    return refuse(fitting.error().code, "VERBATIM_NODE: " + fitting.error().text);
  }
  for (const config::Setting& setting : config::from_environment()) {
    config::NodeConfig wanted;
    if (auto applied = config::apply(setting.key, setting.value, wanted); !applied) {
      return refuse(applied.error().code, setting.from + ": " + applied.error().text);
    }
    if (setting.key == "address") options.addresses = std::move(wanted.addresses);
    if (setting.key == "roce") options.versions = std::move(wanted.versions);
    if (setting.key == "protocol") options.protocol = wanted.protocol;
    if (setting.key == "device") options.device = std::move(wanted.device);
    if (setting.key == "profile") options.profile = setting.value;
    if (setting.key == "fabric") options.fabric = setting.value;
    if (setting.key == "host") options.host = setting.value;
    if (setting.key == "function") options.function = setting.value;
  }
  if (!options.host.empty()) {
    if (options.fabric.empty()) options.fabric = config::NodeConfig().fabric;
    options.node = node_of_host(options.fabric, options.host);
  }
  // Not from the environment of a program with raised privileges, because it names a program to
  // start.
  if (const char* program = secure_getenv("VERBATIMD")) options.agent_program = program;
  return options;
}

std::vector<config::Setting> AgentOptions::settings() const {
  std::vector<config::Setting> all;
  const auto add = [&all](const char* key, std::string value) {
    if (!value.empty()) all.push_back({key, std::move(value), std::string("--") + key});
  };
  add("address", config::text_of(addresses));
  add("roce", config::text_of(versions));
  add("protocol", protocol ? std::string(name_of(*protocol)) : "");
  add("device", device);
  add("profile", profile);
  add("fabric", host.empty() ? "" : fabric);
  add("host", host);
  add("function", function);
  return all;
}

std::string node_of_host(std::string_view fabric, std::string_view host) {
  std::string name = fmt::format("{}.{}", fabric, host);
  std::ranges::replace_if(name, [](char c) { return !service::is_node_character(c); }, '_');
  name.resize(std::min(name.size(), service::kNodeNameMax));
  return name;
}

}  // namespace verbatim::agent

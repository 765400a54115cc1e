#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/text/table.h"
#include "config/layers.h"

namespace verbatim::cli {
namespace {

struct Wish {
  std::string node;
  std::string file;  // The file to check.
};

std::string examples() {
  std::string keys;
  for (const config::Key& key : config::keys()) {
    keys += fmt::format("  {:<20} {}\n", key.name, key.meaning);
  }
  std::string profiles;
  for (const config::Profile& profile : config::profiles()) {
    profiles += fmt::format("  {:<20} {}\n", profile.name, profile.meaning);
  }
  return fmt::format(
      "A node's file is verbatim.d/NODE.conf in $XDG_CONFIG_HOME (or ~/.config), then\n"
      "in /etc. Key by key, an option counts before a variable of the environment, that\n"
      "before the user's file, that before the system's. The node's agent reads them\n"
      "when the node begins.\n"
      "\n"
      "Keys, in lines 'key = value':\n{}\n"
      "Profiles:\n{}\n"
      "Examples:\n"
      "  verbatim config a\n"
      "  verbatim config --check ~/.config/verbatim.d/a.conf",
      keys, profiles);
}

int check_file(const std::string& path) {
  const auto content = config::read_file(path);
  if (!content) {
    fmt::print(stderr, "verbatim config: {}\n", content.error().text);
    return kExitFailure;
  }
  const auto faults = config::faults_of(*content);
  for (const config::Fault& fault : faults) {
    fmt::print(stderr, "{}:{}: {}\n", path, fault.line, fault.text);
  }
  if (!faults.empty()) return kExitFailure;
  fmt::print("{}: {} keys, all as they should be\n", path,
             config::parse_entries(*content).entries.size());
  return 0;
}

/// Returns, in words, how a running node differs from `wanted`.
std::vector<std::string> differences(const config::NodeConfig& wanted, const agent::Node& node) {
  std::vector<std::string> found;
  const auto add = [&found](std::string_view key, std::string_view running) {
    found.push_back(fmt::format("{} {}", key, running));
  };
  const bool has_addresses =
      std::ranges::all_of(wanted.addresses, [&](const SocketAddress& address) {
        return std::ranges::any_of(node.addresses,
                                   [&](const SocketAddress& own) { return same_ip(own, address); });
      });
  if (!has_addresses) add("address", config::text_of(node.addresses));
  const std::string device = config::device_name(
      wanted.device, {.node = node.name, .guid = node.guid, .protocol = node.protocol});
  if (device != node.device) add("device", node.device);
  if (wanted.protocol != node.protocol) add("protocol", name_of(node.protocol));
  if (wanted.profile->name != node.profile) add("profile", node.profile);
  for (const config::LimitField& field : config::limit_fields()) {
    const std::uint32_t running = node.limits.*field.member;
    if (wanted.limits.*field.member != running) add(field.name, fmt::to_string(running));
  }
  return found;
}

int show(const std::string& node) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "verbatim config: {}\n", error.text);
    return kExitFailure;
  };
  const auto folders = config::config_folders();
  if (!folders) return fail(folders.error());
  const auto effective = config::resolve(node, *folders, config::from_environment());
  if (!effective) return fail(effective.error());
  Table table({"key", "value", "from"});
  for (const config::Setting& setting : effective->settings) {
    table.add({setting.key, setting.value.empty() ? "-" : setting.value, setting.from});
  }
  fmt::print("node {}\n{}", node, table.text(2));
  if (effective->files.empty()) {
    fmt::print("\nNone of these files exists:");
    for (const auto& folder : *folders) fmt::print(" {}", config::file_of(folder, node));
    fmt::print("\n");
  }
  const auto running = agent::node_description(node);
  if (!running) return 0;
  if (const auto other = differences(effective->config, *running); !other.empty()) {
    fmt::print("\nThe node runs with other values until its last program has left: {}\n",
               fmt::join(other, ", "));
  }
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& exit_status) {
  auto* command = app.add_subcommand("config", "Show a node's configuration, or check a file");
  auto wish = std::make_shared<Wish>();  // Shared with the callback that reads it.
  auto* node = command->add_option("NODE", wish->node, "The node; default: this shell's");
  node->type_name("");
  command->add_option("--check", wish->file, "Check this file instead")
      ->type_name("FILE")
      ->excludes(node);
  command->footer(examples);
  command->callback([wish, &exit_status] {
    if (!wish->file.empty()) {
      exit_status = check_file(wish->file);
      return;
    }
    exit_status = show(wish->node.empty() ? node_of({}) : wish->node);
  });
}

}  // namespace verbatim::cli

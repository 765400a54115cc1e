#include "cli/target/target_name.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "cli/target/restore.h"
#include "service/launch.h"

namespace verbatim::cli {

service::ServiceName target_of(const NodeChoice& node, const HostChoice& host) {
  const char* const of_environment = getenv("VERBATIM_HOST");
  if (host.host) return {"target", *host.host};
  const bool has_node = node.node.has_value() || !node.addresses.empty();
  if (!has_node && of_environment != nullptr && *of_environment != '\0')
    return {"target", of_environment};
  return {"target", node_of(node)};
}

Result<void> start_target(const service::ServiceName& name, std::vector<std::string> more) {
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return std::unexpected(program.error());
  std::vector<std::string> words{"target", "--name", name.name};
  words.insert(words.end(), more.begin(), more.end());
  if (auto started = service::start_daemon({.program = *program, .arguments = std::move(words)});
      !started)
    return started;
  if (const auto restored = restore_target(name); !restored)
    fmt::print(stderr, "verbatim: warn: {}: {}\n", name.text(), restored.error().text);
  return {};
}

Result<void> show_target_tree(const service::ServiceName& name, const std::string& program) {
  constexpr std::string_view kAdministrators[] = {"targetcli", "targetctl", "nvmetcli"};
  const auto folder = service::folder_of(name);
  if (!folder) return std::unexpected(folder.error());
  setenv("VERBATIM_TARGET", folder->c_str(), 1);
  const std::string_view base = std::string_view(program).substr(program.rfind('/') + 1);
  if (std::ranges::find(kAdministrators, base) == std::end(kAdministrators) ||
      service::process_of(name) != 0)
    return {};
  return start_target(name);
}

}  // namespace verbatim::cli

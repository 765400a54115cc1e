#include "cli/target/target_name.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "cli/services/service_command.h"
#include "cli/target/restore.h"
#include "service/launch.h"

namespace verbatim::cli {

service::ServiceName target_of(const NodeChoice& node, const HostChoice& host) {
  return service_name("target", {node, host});
}

Result<void> start_target(const service::ServiceName& name, std::vector<std::string> more) {
  const auto program = service::find_program("verbatim-ulpd");
  if (!program) return std::unexpected(program.error());
  std::vector<std::string> words{"target", "--name", name.name};
  words.insert(words.end(), more.begin(), more.end());
  std::ranges::move(end_with_fabric(), std::back_inserter(words));
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

#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/cluster/commands.h"
#include "cli/command.h"
#include "service/control.h"

namespace verbatim::cli::cluster {

void add_down(CLI::App& cluster, int& exit_status) {
  auto* command = cluster.add_subcommand("down", "End programs on the nodes, and the nodes");
  auto name = std::make_shared<std::string>("default");
  command->add_option("--name", *name, "The cluster's name");
  command->footer("Examples:\n  verbatim cluster down");
  command->callback([name, &exit_status] {
    const auto ended = service::end({.kind = "cluster", .name = *name});
    if (!ended) fmt::print(stderr, "verbatim cluster down: {}\n", ended.error().text);
    exit_status = ended ? 0 : kExitFailure;
  });
}

}  // namespace verbatim::cli::cluster

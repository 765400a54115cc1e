#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/cluster/commands.h"
#include "cli/cluster/description.h"
#include "cli/command.h"
#include "service/launch.h"

namespace verbatim::cli::cluster {
namespace {

constexpr const char* kExamples =
    "Returns when the nodes are there. They stay until 'verbatim cluster down'.\n"
    "\n"
    "Examples:\n"
    "  verbatim cluster up\n"
    "  verbatim cluster up --nodes 8 --slots 2 --protocol iwarp\n"
    "  verbatim cluster up --hosts H1,H2,H3,H4      # of a fabric";

/// The kernel makes and ends network namespaces one after the other, for all users.
constexpr TimeNs kPatience = 60 * kSecond;

int up(const std::vector<std::string>& arguments, const std::string& name) {
  std::vector<std::string> words{"cluster", "serve", "--name", name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto program = service::find_program("verbatim");
  const auto started =
      program
          ? service::start_daemon({.program = *program, .arguments = words, .patience = kPatience})
          : std::unexpected(program.error());
  if (!started) {
    fmt::print(stderr, "verbatim cluster up: {}\n", started.error().text);
    return started.error().code == EINVAL ? kExitUsage : kExitFailure;
  }
  const auto made = description_of(name);
  if (!made) {
    fmt::print(stderr, "verbatim cluster up: {}\n", made.error().text);
    return kExitFailure;
  }
  fmt::print("cluster '{}': {} nodes, {} to {}. 'verbatim cluster run{} -- COMMAND' runs on {}.\n",
             name, made->nodes.size(), made->nodes.front().name, made->nodes.back().name,
             name == "default" ? "" : " --name " + name, made->nodes.front().name);
  return 0;
}

}  // namespace

void add_up(CLI::App& cluster, int& exit_status) {
  auto* command = cluster.add_subcommand("up", "Make nodes");
  struct Form {
    std::string name = "default", nodes = "4", slots = "1", protocol, fabric, hosts;
  };
  auto form = std::make_shared<Form>();
  command->add_option("--name", form->name, "The cluster's name");
  command->add_option("--nodes", form->nodes, "How many: 4, at most 64")->type_name("N");
  command->add_option("--slots", form->slots, "Processes for each in a hostfile: 1")
      ->type_name("N");
  command->add_option("--protocol", form->protocol, "roce (default) or iwarp");
  auto* hosts = command->add_option("--hosts", form->hosts, "Hosts of a fabric: each is a node");
  hosts->type_name("H1,H2...");
  command->add_option("--fabric", form->fabric, "Their fabric, 'default' if not given")
      ->needs(hosts);
  command->footer(kExamples);
  command->callback([form, &exit_status] {
    std::vector<std::string> arguments{"--nodes", form->nodes, "--slots", form->slots};
    const auto add = [&arguments](const char* option, const std::string& value) {
      if (!value.empty()) arguments.insert(arguments.end(), {option, value});
    };
    add("--protocol", form->protocol);
    add("--fabric", form->fabric);
    add("--hosts", form->hosts);
    exit_status = up(arguments, form->name);
  });
}

}  // namespace verbatim::cli::cluster

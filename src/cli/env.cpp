#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/environment.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "To go back: leave the shell, or unset the variables that 'verbatim env' prints.\n"
    "man verbatim.7 tells what they mean.\n"
    "\n"
    "Examples:\n"
    "  eval \"$(verbatim env --node a --address 127.0.0.2)\"\n"
    "  ibv_devinfo                 # from now on, in this shell, on node a";

int print_exports(const NodeChoice& choice) {
  const auto variables = own_variables_for(choice);
  if (!variables) {
    fmt::print(stderr, "verbatim env: {}\n", variables.error().text);
    return variables.error().code == EINVAL ? kExitUsage : kExitFailure;
  }
  for (const auto& [name, value] : *variables) {
    fmt::print("export {}={}\n", name, shell_quoted(value));
  }
  return 0;
}

}  // namespace

void add_env(CLI::App& app, int& exit_status) {
  auto* env = app.add_subcommand("env", "Print what puts a shell on an emulated host");
  auto choice = std::make_shared<NodeChoice>();  // Shared with the callback that reads it.
  add_node_options(*env, *choice);
  env->footer(kExamples);
  env->callback([choice, &exit_status] { exit_status = print_exports(*choice); });
}

}  // namespace verbatim::cli

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/executable.h"
#include "cli/help.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Everything after '--' is the command. Its exit status is passed on; 127 says\n"
    "that it was not found, 126 that it cannot be executed.\n"
    "\n"
    "Programs of one node share its device. Nodes of one machine need no root: any\n"
    "address of 127.0.0.0/8 will do. Without --node and --address, VERBATIM_NODE and\n"
    "VERBATIM_ADDRESS of the environment count, else the node is 'local'.\n"
    "\n"
    "Examples:\n"
    "  verbatim run -- ibv_devinfo\n"
    "  verbatim run --node a --address 127.0.0.2 -- ib_write_bw\n"
    "  verbatim run --node b --address 127.0.0.3 -- ib_write_bw 127.0.0.2";

/// The descriptor that the command inherits: high, so that the numbers it counts on are free.
constexpr int kHoldDescriptorMin = 100;

/// From now on until the command ends the node has its agent, and with it its view of /sys. Where
/// that fails the command learns why when it opens the device.
void hold_node() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return;
  const auto held = agent::hold_node(*options);
  if (held) fcntl(held->get(), F_DUPFD, kHoldDescriptorMin);
}

/// Comes back only where it fails.
int execute(const NodeChoice& choice, std::vector<std::string> command) {
  if (command.empty()) {
    fmt::print(stderr,
               "verbatim run: which command? Write it after '--', as in "
               "'verbatim run -- ibv_devinfo'\n");
    return kExitUsage;
  }
  const char* search_path = getenv("PATH");
  const auto program = find_executable(command.front(), search_path == nullptr ? "" : search_path);
  if (!program) {
    fmt::print(stderr, "verbatim run: {}\n", program.error().text);
    return program.error().code == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  const auto variables = own_variables_for(choice);
  if (!variables) {
    fmt::print(stderr, "verbatim run: {}\n", variables.error().text);
    return variables.error().code == EINVAL ? kExitUsage : kExitFailure;
  }
  if (const auto reason = reason_dropins_are_ignored(*program); !reason.empty()) {
    fmt::print(stderr, "verbatim: warn: {}\n", reason);
  }
  for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), 1);
  hold_node();

  std::vector<char*> arguments;
  for (auto& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(program->c_str(), arguments.data());
  if (errno == ENOEXEC) {  // A script without "#!": as a shell does, give it to the shell.
    arguments[0] = const_cast<char*>(program->c_str());
    arguments.insert(arguments.begin(), const_cast<char*>("sh"));
    execv("/bin/sh", arguments.data());
  }
  fmt::print(stderr, "verbatim run: cannot start {}: {}\n", *program, std::strerror(errno));
  return kExitNotExecutable;
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* run = app.add_subcommand("run", "Run a program on an emulated host");
  auto choice = std::make_shared<NodeChoice>();  // Lives as long as the callback that reads it.
  add_node_options(*run, *choice);
  run->prefix_command();
  run->footer(kExamples);
  run->callback([run, choice, &command, &exit_status] {
    const auto words = command_line_of(*run, command);
    if (!words) fmt::print(stderr, "{}", words.error().text);
    exit_status = words ? execute(*choice, *words) : kExitUsage;
  });
}

}  // namespace verbatim::cli

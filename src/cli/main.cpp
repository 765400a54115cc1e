#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/rds/rds.h"

namespace {

constexpr const char* kDescription =
    "Verbatim: the whole RDMA stack in user space. Unmodified RDMA programs run\n"
    "without an RDMA network card, a kernel module or root.";

constexpr const char* kVersion = "verbatim " VERBATIM_VERSION;

constexpr const char* kExamples =
    "Examples:\n"
    "  Two emulated hosts on one machine, each in a terminal of its own:\n"
    "    verbatim run --node a --address 127.0.0.2 -- ib_write_bw\n"
    "    verbatim run --node b --address 127.0.0.3 -- ib_write_bw 127.0.0.2\n"
    "  What a program sees:\n"
    "    verbatim run -- ibv_devinfo\n"
    "\n"
    "'verbatim COMMAND --help' tells more about each command.";

/// What every command has; commands may have commands.
void finish(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    command->set_version_flag("--version", kVersion, "Print the version");
    if (!command->get_group().empty()) command->group("Commands");  // Else it is hidden.
    finish(*command);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // The words after "--" belong to the command that `run` starts; CLI11 must not parse them.
  char** const own_end = std::find(argv, argv + argc, std::string_view("--"));
  const std::vector<std::string> command(std::min(own_end + 1, argv + argc), argv + argc);
  CLI::App app(kDescription, "verbatim");
  app.set_version_flag("--version", kVersion, "Print the version");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.formatter(std::make_shared<verbatim::cli::HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this help");
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return verbatim::cli::explain(*failed, error);
  });
  int exit_status = 0;
  verbatim::cli::add_run(app, command, exit_status);
  verbatim::cli::add_env(app, exit_status);
  verbatim::cli::add_config(app, exit_status);
  verbatim::cli::add_devices(app, exit_status);
  verbatim::cli::add_status(app, exit_status);
  verbatim::cli::add_fabric(app, exit_status);
  verbatim::cli::add_cluster(app, command, exit_status);
  verbatim::cli::add_ipoib(app, exit_status);
  verbatim::cli::add_lnet(app, exit_status);
  verbatim::cli::add_rds(app, exit_status);
  verbatim::cli::add_target(app, exit_status);
  verbatim::cli::add_nfs(app, exit_status);
  verbatim::cli::add_disk(app, exit_status);
  verbatim::cli::add_nic(app, command, exit_status);
  verbatim::cli::add_capture(app, command, exit_status);
  verbatim::cli::add_fault(app, exit_status);
  verbatim::cli::add_doctor(app, command, exit_status);
  finish(app);
  if (own_end - argv > 1) {
    const auto unknown = verbatim::cli::explain_unknown_command(app, argv[1]);
    if (!unknown.empty()) {
      fmt::print(stderr, "{}", unknown);
      return verbatim::cli::kExitUsage;
    }
  }
  try {
    app.parse(static_cast<int>(own_end - argv), argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : verbatim::cli::kExitUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "verbatim: {}\n", error.what());
    return verbatim::cli::kExitFailure;
  }
  // A full disk is no success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "verbatim: standard output: {}\n", std::strerror(errno));
    return exit_status == 0 ? verbatim::cli::kExitFailure : exit_status;
  }
  return exit_status;
}

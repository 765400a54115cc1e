#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// The subcommands of `verbatim`. Each function adds one to `app`; if the command line selects it,
/// parsing runs it, and it sets `exit_status`.
namespace verbatim::cli {

struct NodeChoice;

/// Status of a failure of the command itself, not of its child: the same as for `env` and `nohup`.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

/// `command`: the words after "--" on the command line.
void add_run(CLI::App& app, const std::vector<std::string>& command, int& exit_status);
void add_env(CLI::App& app, int& exit_status);
void add_config(CLI::App& app, int& exit_status);
void add_devices(CLI::App& app, int& exit_status);
void add_status(CLI::App& app, int& exit_status);
void add_fabric(CLI::App& app, int& exit_status);
void add_cluster(CLI::App& app, const std::vector<std::string>& command, int& exit_status);
void add_ipoib(CLI::App& app, int& exit_status);
void add_lnet(CLI::App& app, int& exit_status);
void add_nic(CLI::App& app, const std::vector<std::string>& command, int& exit_status);
void add_capture(CLI::App& app, const std::vector<std::string>& command, int& exit_status);
void add_fault(CLI::App& app, int& exit_status);
void add_target(CLI::App& app, int& exit_status);
void add_nfs(CLI::App& app, int& exit_status);
void add_disk(CLI::App& app, int& exit_status);
void add_doctor(CLI::App& app, const std::vector<std::string>& command, int& exit_status);

/// Adds `--node`, `--address`, `--protocol` and `--roce`. `choice` must outlive the command.
void add_node_options(CLI::App& command, NodeChoice& choice);

}  // namespace verbatim::cli

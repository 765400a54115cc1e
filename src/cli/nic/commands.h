#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// The subcommands of `verbatim nic`: a SmartNIC in user space.
namespace verbatim::cli::nic {

void add_up(CLI::App& nic, int& exit_status);
void add_down(CLI::App& nic, int& exit_status);
void add_show(CLI::App& nic, int& exit_status);
void add_flows(CLI::App& nic, int& exit_status);
void add_stats(CLI::App& nic, int& exit_status);
void add_ovs(CLI::App& nic, const std::vector<std::string>& after_dashes, int& exit_status);

}  // namespace verbatim::cli::nic

#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

/// The subcommands of `verbatim cluster`: nodes with a network of their own each, for programs that
/// take addresses of one machine for one host, such as MPI's.
namespace verbatim::cli::cluster {

void add_up(CLI::App& cluster, int& exit_status);
/// Not for users: the process that keeps a cluster.
void add_serve(CLI::App& cluster, int& exit_status);
void add_run(CLI::App& cluster, const std::vector<std::string>& command, int& exit_status);
void add_agent(CLI::App& cluster, const std::vector<std::string>& after_dashes, int& exit_status);
void add_show(CLI::App& cluster, int& exit_status);
void add_down(CLI::App& cluster, int& exit_status);

}  // namespace verbatim::cli::cluster

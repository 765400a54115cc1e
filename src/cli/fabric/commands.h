#pragma once

#include <CLI/CLI.hpp>

/// The subcommands of `verbatim fabric`. Each function adds one to `fabric`.
namespace verbatim::cli {

void add_fabric_up(CLI::App& fabric, int& exit_status);
void add_fabric_down(CLI::App& fabric, int& exit_status);
void add_fabric_show(CLI::App& fabric, int& exit_status);
void add_fabric_link(CLI::App& fabric, int& exit_status);
void add_fabric_trunk(CLI::App& fabric, int& exit_status);
void add_fabric_capture(CLI::App& fabric, int& exit_status);
void add_fabric_check(CLI::App& fabric, int& exit_status);
void add_fabric_generate(CLI::App& fabric, int& exit_status);

/// `--name`. `name` lives as long as the command.
void add_name_option(CLI::App& command, std::string& name);

}  // namespace verbatim::cli

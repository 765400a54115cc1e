#pragma once

#include <CLI/CLI.hpp>

namespace verbatim::cli {

/// `verbatim rds`.
void add_rds(CLI::App& app, int& exit_status);

}  // namespace verbatim::cli

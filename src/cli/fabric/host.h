#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/environment.h"

namespace verbatim::cli {

/// Which host of which fabric a program runs on.
struct HostChoice {
  std::optional<std::string> fabric;
  std::optional<std::string> host;
};

/// Requires a command that has no options of this name.
void add_host_options(CLI::App& command, HostChoice& choice);

/// The variables by which a program is on the host; none if neither `choice` nor the environment
/// names a host. EINVAL: a fabric without a host; ENOENT, ENODEV: there is no such fabric or host.
Result<Variables> host_variables(const HostChoice& choice);

}  // namespace verbatim::cli

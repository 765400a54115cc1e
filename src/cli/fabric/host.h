#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace verbatim::cli {

/// The options --fabric and --host: on which host of which fabric a program runs.
struct HostChoice {
  std::optional<std::string> fabric;
  std::optional<std::string> host;
};

/// Adds both to a command that has a node's options (`add_node_options`).
void add_host_options(CLI::App& command, HostChoice& choice);

/// Options of a daemon by which it ends with the fabric of the host that this process is on:
/// nothing reaches it then. None on a node.
std::vector<std::string> end_with_fabric();

/// Puts the variables by which a program is on the host into the environment of this process.
/// Returns false if neither `choice` nor the environment names a host. EINVAL: a fabric without a
/// host; ENOENT, ENODEV: there is no such fabric or host.
Result<bool> enter_host(const HostChoice& choice);

}  // namespace verbatim::cli

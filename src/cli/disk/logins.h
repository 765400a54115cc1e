#pragma once

#include "cli/services/service_command.h"

namespace verbatim::cli {

/// Shows programs that this process becomes where their logins to storage targets are kept: a
/// program that logs in (`nvme connect`, `srp_daemon -e`) starts the keeper. Warns if `program`
/// logs in elsewhere.
Result<void> show_logins(const NodeChoice& node, const HostChoice& host,
                         const std::string& program);

/// Starts the keeper of a node's, or a host's, logins unless it runs. The exit status.
int start_logins(const ServiceChoice& choice);
/// Ends it with all logins and disks.
int end_logins(const ServiceChoice& choice);

}  // namespace verbatim::cli

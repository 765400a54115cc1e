#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "service/control.h"

namespace verbatim::cli {

/// The target of a node, or of a host of a fabric.
service::ServiceName target_of(const NodeChoice& node, const HostChoice& host);

/// Starts it, and makes what was saved for it; a warning says what could not be made. The
/// environment is that of programs on the node. `more`: further options of `verbatim-ulpd target`.
Result<void> start_target(const service::ServiceName& name, std::vector<std::string> more = {});

/// Shows programs that this process becomes the target's tree at /sys/kernel/config. For programs
/// that are nothing without it (targetcli, targetctl, nvmetcli), starts the target.
Result<void> show_target_tree(const service::ServiceName& name, const std::string& program);

}  // namespace verbatim::cli

#pragma once

#include <string>

#include "agent/protocol/node.h"
#include "agent/server/port_totals.h"
#include "base/error.h"

/// A node's view of /sys and /dev: a folder with the files, folders and links that a kernel driver
/// would show there. src/dropin/view redirects path calls of programs into it.
namespace verbatim::agent {

/// Writes the view anew and puts it in place of an older one in one step.
Result<void> write_view(const std::string& folder, const Node& node, const PortTotals& totals = {});
/// Makes `view` a link to another view.
Result<void> link_view(const std::string& view, const std::string& target);
/// Replaces those counters of the view that are others than before, each file in one step. Does
/// nothing if there is no view.
void show_counters(const std::string& folder, const Node& node, const PortTotals& before,
                   const PortTotals& totals);
void remove_view(const std::string& folder);

}  // namespace verbatim::agent

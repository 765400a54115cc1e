#pragma once

#include <memory>
#include <string>

#include "adapter/adapter.h"
#include "agent/client/client.h"
#include "base/error.h"
#include "dropin/ibverbs/control/usage.h"
#include "dropin/ibverbs/fabric/fabric_management.h"

/// A process as a program of a node. Wires adapter, arena and agent together.
namespace verbatim::dropin {

struct Program {
  std::unique_ptr<agent::AgentClient> client;    // Outlives the adapter, whose thread calls it.
  std::unique_ptr<FabricManagement> management;  // As the client. Null until it is opened.
  std::unique_ptr<adapter::Adapter> adapter;
  std::unique_ptr<Usage> usage;  // The device's limits, and what is used of them.
  std::string firmware;
};

/// Returns this process's program; the first call joins the node that the environment names. It
/// exists until the process ends, as a card does: queue pairs that the program leaves open are
/// flushed when it dies. A forked child gets a new one when it asks.
Result<Program*> program();

/// On a host of a fabric, opens queue pair 1 for the program's connections, unless it is open.
Result<void> open_management(Program& program);

/// Returns this process's node or, before the process has joined one, the node that the environment
/// names, whose agent is started if necessary.
Result<arena::Node> agent_node();

/// Bit i: entry i of the GID table is valid.
std::uint32_t gids_in_use(const arena::Node& node);

}  // namespace verbatim::dropin

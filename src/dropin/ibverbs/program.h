#pragma once

#include <memory>
#include <string>

#include "adapter/adapter.h"
#include "agent/client/client.h"
#include "base/error.h"
#include "dropin/ibverbs/control/usage.h"

/// What a process is to Verbatim: its place in a node. Here the adapter, its arena and the agent
/// are wired together.
namespace verbatim::dropin {

struct Program {
  std::unique_ptr<agent::AgentClient> client;  // Outlives the adapter, whose thread calls it.
  std::unique_ptr<adapter::Adapter> adapter;
  std::unique_ptr<Usage> usage;  // Of the device, whose limits it has.
  std::string firmware;
};

/// This process's program: joins the node that the environment names the first time. It stays until
/// the process ends, as a card stays when its last user has gone: queue pairs that a program leaves
/// open are flushed when it dies. A child of fork gets one of its own when it asks.
Result<Program*> program();

/// The node that this process belongs to or, before it has joined one, the node that the
/// environment names, whose agent is started where none runs.
Result<agent::NodeDescription> agent_node();
/// The same as the adapter sees it.
adapter::NodeDescription describe(const agent::NodeDescription& node);

/// Bit i: entry i of the GID table is valid.
std::uint32_t gids_in_use(const agent::NodeDescription& node);

}  // namespace verbatim::dropin

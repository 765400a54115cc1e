#pragma once

#include <span>

#include "agent/netlink/rdma_facts.h"
#include "agent/protocol/node.h"
#include "agent/server/port_totals.h"
#include "agent/server/status.h"

/// What an agent knows of its node, as RDMA netlink tells it.
namespace verbatim::agent::netlink {

DeviceFact device_fact(const Node& node, const PortTotals& totals);
/// Reads the arenas of the programs.
ResourceFacts resource_facts(const Node& node, std::span<const ProgramEntry> programs);

}  // namespace verbatim::agent::netlink

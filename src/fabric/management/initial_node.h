#pragma once

#include <vector>

#include "fabric/topology/topology.h"
#include "mad/sma/subnet_node.h"

namespace verbatim::fabric {

/// What the agents of every node say before a subnet manager has written anything: its ports are
/// down.
std::vector<mad::SubnetNode> initial_nodes(const Topology& topology);
/// The port can do what its cable can.
void set_rate(wire::PortInfo& port, Rate rate);

}  // namespace verbatim::fabric

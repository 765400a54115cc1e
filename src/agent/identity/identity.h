#pragma once

#include <functional>

#include "agent/identity/interfaces.h"
#include "agent/protocol/node.h"
#include "config/node_config.h"

/// Determines a node's addresses, GIDs, GUID and device. A pure function of the interfaces and the
/// configuration.
namespace verbatim::agent {

/// Returns a constant address for a node without one, made from its name: 127.x.y.z, never
/// 127.0.0.1.
SocketAddress address_from_name(const std::string& node);

/// Called for the interface of the node's first address: may the node use the interface's MAC and
/// link-local address? False if another node already does.
using MayBeInterface = std::function<bool(const Interface&)>;

/// Without wanted addresses, a node with a wanted interface gets that one's first address, IPv4
/// preferred; node `local` gets the first address of the first interface that is up, IPv4 and
/// link-local, else 127.0.0.1; others `address_from_name`. Errors: EADDRNOTAVAIL (no interface, or
/// another one, has the address), ENODEV (no such interface), EINVAL (not unicast, or twice the
/// same), ENOSPC (more than kAddressesMax).
Result<NodeDescription> identify(const std::string& node, const config::NodeConfig& wanted,
                                 const std::vector<Interface>& interfaces,
                                 const MayBeInterface& may_be_interface);

/// Returns the node with its addresses and GIDs in these versions; those of one address are
/// adjacent. A link-local GID that stands for an IPv4 address has only version 2, because frames
/// carry the GID itself. ENOSPC.
Result<NodeDescription> with_versions(NodeDescription node, const RoceVersions& versions);

/// Returns the port's state with the current interfaces, for a node that was identified earlier.
PortState port_state(const NodeDescription& node, const std::vector<Interface>& interfaces);

/// Addresses of the node's interface that the node does not have, without 127.0.0.0/8 and ::1.
std::vector<SocketAddress> unassigned_addresses(const NodeDescription& node,
                                                const std::vector<Interface>& interfaces);

}  // namespace verbatim::agent

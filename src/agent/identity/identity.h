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

/// Without wanted addresses, a node with a wanted interface gets the first of that, IPv4 before
/// others; node `local` gets the first interface's that is up, IPv4 and link-local, else 127.0.0.1;
/// others `address_from_name`. Errors: EADDRNOTAVAIL (no interface, or another one, has the
/// address), ENODEV (no such interface), EINVAL (no unicast address, or twice the same), ENOSPC
/// (more than kAddressesMax).
Result<Node> identify(const std::string& node, const config::NodeConfig& wanted,
                      const std::vector<Interface>& interfaces,
                      const MayBeInterface& may_be_interface);

/// The node with its addresses and GIDs in these versions, those of one address side by side. A
/// link-local GID that stands for an IPv4 address is of version 2: frames carry the GID itself.
/// ENOSPC.
Result<Node> with_versions(Node node, const RoceVersions& versions);

/// How the interfaces, as they are now, stand to a node that was identified earlier.
NetworkState port_state(const Node& node, const std::vector<Interface>& interfaces);

/// Addresses of the node's interface that the node might take and does not have. None of
/// 127.0.0.0/8 and ::1 are among them, which every loopback interface has.
std::vector<SocketAddress> unassigned_addresses(const Node& node,
                                                const std::vector<Interface>& interfaces);

}  // namespace verbatim::agent

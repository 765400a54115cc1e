#include <algorithm>
#include <string>

#include "agent/identity/identity.h"
#include "agent/server/server.h"
#include "link/ethernet/node_function.h"

/// The node whose interface is a function of a card: the kernel knows nothing of it.
namespace verbatim::agent {

std::string interface_claim(const Node& node) {
  std::string name(node.has_function() ? node.function.view() : node.interface.view());
  std::ranges::replace(name, '/', '_');
  return name;
}

/// As a node on an interface that has the function's MAC, the wanted addresses and, made from the
/// MAC, a link-local one.
Result<Node> Server::node_on_function(const config::NodeConfig& wanted) {
  if (wanted.protocol != WireProtocol::roce) {
    return refuse(EINVAL, "iWARP needs the kernel's TCP: a card's function has none");
  }
  if (wanted.addresses.empty()) {
    return refuse(EINVAL, "a node on a card's function needs an address: --address 10.9.0.2");
  }
  const auto name = link::parse_function(wanted.function);
  if (!name) return std::unexpected(name.error());
  const auto facts = link::look_at(*name);
  if (!facts) return std::unexpected(facts.error());
  Interface function{.name = fmt::format("vf{}", name->function),
                     .mtu_bytes = facts->mtu,
                     .mac = facts->mac,
                     .is_up = true,
                     .addresses = wanted.addresses};
  function.addresses.push_back(SocketAddress::ipv6(link_local_gid(facts->mac).bytes, kRocePort));
  auto node = identify(options_.node, wanted, {function}, [](const Interface&) { return true; });
  if (!node) return node;
  node->function = wanted.function;
  if (!claims_.take_interface(interface_claim(*node), Claims::IdleOwner::ends)) {
    return refuse(EADDRINUSE,
                  fmt::format("function {} is another node's already", wanted.function));
  }
  node->network.hardware_address = facts->mac;
  return node;
}

}  // namespace verbatim::agent

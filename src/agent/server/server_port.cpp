#include <algorithm>
#include <utility>

#include "agent/identity/identity.h"
#include "agent/identity/interfaces.h"
#include "agent/server/server.h"
#include "base/log.h"

/// The node's port when interfaces and addresses change. Sockets stay open: those of a missing
/// address wait until it is back.
namespace verbatim::agent {

/// The node works without it, too: its port then keeps its initial state.
Result<void> Server::watch_interfaces() {
  auto links = InterfaceWatch::open();
  if (!links) {
    log(LogLevel::warn, "changes of the network go unnoticed: {}", links.error().text);
    return {};
  }
  interface_watch_.emplace(std::move(*links));
  look_at_port();  // Changes before it existed.
  return watch(interface_watch_->fd());
}

void Server::look_at_port() {
  if (recovering()) return;
  if (fabric_) return set_network(fabric_->network());
  if (slots_->node().has_function()) return set_network(slots_->node().network);
  const auto interfaces = read_interfaces();
  if (!interfaces) return log(LogLevel::warn, "{}", interfaces.error().text);
  look_for_addresses(*interfaces);
  set_network(port_state(slots_->node(), *interfaces));
}

void Server::set_network(const NetworkState& state) {
  if (state == port_) return;
  port_ = state;
  show_view();
  announce_port();
}

/// The interface's initial addresses that the node was not given belong to others. So does a new
/// address that is refused, until it is removed and added again.
void Server::look_for_addresses(const std::vector<Interface>& interfaces) {
  const auto strangers = unassigned_addresses(slots_->node(), interfaces);
  const bool are_ours = claims_.take_new_addresses(std::string(slots_->node().interface));
  const auto before = std::exchange(ignored_addresses_, std::vector<SocketAddress>());
  for (const SocketAddress& address : strangers) {
    const bool is_known = !before || std::ranges::find(*before, address) != before->end();
    if (!is_known && are_ours) {
      const auto added = add_address(address);
      // An IPv6 address cannot be bound during duplicate address detection; the kernel reports its
      // end.
      if (added || added.error().code == EADDRNOTAVAIL) continue;
      log(LogLevel::warn, "{} gets no GID: {}", address.ip_text(), added.error().text);
    }
    ignored_addresses_->push_back(address);
  }
}

Result<void> Server::add_address(const SocketAddress& address) {
  if (auto free = ReceiveSockets::probe(address); !free) return free;
  if (auto taken = claims_.take_address(address, Claims::IdleOwner::keeps); !taken) return taken;
  const RoceVersions versions = versions_of(slots_->node().addresses);
  for (const RoceVersion version : versions) {
    auto added = add_address(address, version);
    if (added) continue;
    if (version == versions.front()) claims_.release_last();
    return added;
  }
  return {};
}

Result<void> Server::add_address(const SocketAddress& address, RoceVersion version) {
  const SocketAddress own = of_version(address, version);
  if (auto added = slots_->add_address(own); !added) return added;
  if (!management_) return {};  // It is about to be opened, with all addresses.
  const int socket = slots_->sockets(0).back().get();
  if (auto opened = management_->add(own, socket); !opened) return opened;
  return watch(socket);
}

void Server::announce_port() {
  port_is_announced_ = true;
  for (auto& [fd, connection] : connections_) {
    const bool is_announced = connection.announced_port == port_ &&
                              connection.announced_addresses == slots_->node().socket_count();
    if (!connection.program || is_announced) continue;
    if (!announce_port(connection)) port_is_announced_ = false;
  }
}

/// A connection that has ended also accepts it, until its end is handled.
Result<void> Server::announce_port(Connection& connection) {
  const auto sockets = slots_->sockets(connection.program->slot);
  std::vector<int> new_sockets;
  for (const UniqueFd& socket : sockets.subspan(connection.announced_addresses)) {
    new_sockets.push_back(socket.get());
  }
  Description message;
  message.node = description();
  auto sent = send(connection.fd.get(), message, new_sockets, MSG_DONTWAIT);
  if (!sent) return sent;
  connection.announced_port = port_;
  connection.announced_addresses = sockets.size();
  return {};
}

}  // namespace verbatim::agent

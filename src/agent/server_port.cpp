#include "agent/identity.h"
#include "agent/interfaces.h"
#include "agent/server.h"
#include "base/log.h"

/// The node's port: what becomes of it when interfaces and addresses come and go. Sockets stay as
/// they are, so only addresses that the node had from the start are followed.
namespace verbatim::agent {

/// Without it the node serves too: its port is what it was at the start.
Result<void> Server::watch_links() {
  auto links = LinkWatch::open();
  if (!links) {
    log(LogLevel::warn, "changes of the network go unnoticed: {}", links.error().text);
    return {};
  }
  links_.emplace(std::move(*links));
  look_at_port();  // What changed before it was there.
  return watch(links_->fd());
}

void Server::look_at_port() {
  if (recovering()) return;
  const auto interfaces = read_interfaces();
  if (!interfaces) return log(LogLevel::warn, "{}", interfaces.error().text);
  const PortState state = port_state(slots_->node(), *interfaces);
  if (state == port_) return;
  port_ = state;
  show_view();
  tell_port();
}

void Server::tell_port() {
  port_is_told_ = true;
  Description message;
  message.node = to_record(description());
  for (auto& [fd, connection] : connections_) {
    if (!connection.program || connection.told == port_) continue;
    const auto sent = send(fd, message, {}, MSG_DONTWAIT);
    if (sent) connection.told = port_;
    if (!sent && sent.error().code == EAGAIN) port_is_told_ = false;  // Others have ended.
  }
}

}  // namespace verbatim::agent

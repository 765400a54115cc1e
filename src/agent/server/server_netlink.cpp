#include "agent/netlink/node_facts.h"
#include "agent/server/server.h"
#include "base/log.h"

/// RDMA netlink for the node's programs: beside the folder that they have as their view.
namespace verbatim::agent {

Result<void> Server::open_services() {
  if (auto opened = open_management_port(); !opened) return opened;
  open_netlink();
  return {};
}

/// The node works without it, too, so a failure is not fatal.
void Server::open_netlink() {
  const auto answerer = [this](ByteSpan request, const netlink::Asker& asker) {
    return netlink::answer(
        request,
        {.device = netlink::device_fact(description(), port_totals_now()),
         .resources = [this] { return netlink::resource_facts(description(), program_entries()); }},
        asker);
  };
  const std::string view = fabric_ ? fabric_->view() : folder_.view(options_.node);
  auto opened = netlink::NetlinkSockets::listen(netlink::socket_path(view), answerer);
  if (!opened) return log(LogLevel::warn, "no RDMA netlink: {}", opened.error().text);
  if (!watch((*opened)->fd())) return;
  netlink_ = std::move(*opened);
}

}  // namespace verbatim::agent

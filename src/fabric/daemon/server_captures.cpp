#include <cerrno>
#include <numeric>

#include "fabric/daemon/link_changes.h"
#include "fabric/daemon/server.h"
#include "fabric/protocol/channel.h"

/// Captures of links: as long as a connection captures a link, the packets that cross it go to the
/// tap, which `verbatim fabric capture` reads.
namespace verbatim::fabric {

Result<void> Server::on_capture(Connection& connection, const protocol::CaptureRequest& request) {
  if (!connection.captured_links.empty()) {
    return refuse(EPROTO, "the connection captures links already");
  }
  const Topology& topology = net_.topology();
  std::vector<std::uint32_t> links(topology.links.size());
  std::iota(links.begin(), links.end(), 0);
  if (const auto name = protocol::text_of(request.node); !name.empty()) {
    const auto link = find_link(topology, name, request.port);
    if (!link) return std::unexpected(link.error());
    links = {*link};
  }
  for (const std::uint32_t link : links) {
    if (captures_[link]++ != 0) continue;
    keeper_->set_watched(link, true);
    net_.set_watcher(link, keeper_.get());
  }
  connection.captured_links = std::move(links);
  return protocol::send(connection.fd.get(), protocol::Capturing{}, keeper_->image(), MSG_DONTWAIT);
}

void Server::end_captures(const Connection& connection) {
  for (const std::uint32_t link : connection.captured_links) {
    if (--captures_[link] != 0) continue;
    keeper_->set_watched(link, false);
    net_.set_watcher(link, nullptr);
  }
}

}  // namespace verbatim::fabric

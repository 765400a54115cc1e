#include "port/management.h"

#include <cerrno>

#include <sys/uio.h>

#include "port/route.h"

namespace verbatim::port {

Result<void> send_management(link::Stack& links, const Path& path, Psn psn, wire::MadSpan mad) {
  if (std::holds_alternative<InfinibandPath>(path)) {
    return refuse(EOPNOTSUPP, "no management datagrams over InfiniBand links yet");
  }
  const auto hop = links.top().next_hop(path, wire::kManagementQpn, {});
  if (!hop) return std::unexpected(hop.error());
  const Route route(links, **hop, path);
  const auto packet = wire::encode_management_packet(route.headers, psn, mad);
  const ByteSpan bytes = packet.bytes();
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  static_cast<void>(links.top().send({.to = **hop,
                                      .path = route.path,
                                      .seed = route.seed,
                                      .pieces = {&piece, 1},
                                      .packet_bytes = bytes.size(),
                                      .count = 1,
                                      .lane = route.lane}));
  return {};
}

}  // namespace verbatim::port

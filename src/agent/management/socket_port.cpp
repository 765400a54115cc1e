#include "agent/management/socket_port.h"

#include <algorithm>
#include <cerrno>

#include "agent/protocol/node.h"
#include "port/management.h"
#include "port/roce_link.h"

namespace verbatim::agent {

Result<std::unique_ptr<SocketPort>> SocketPort::create(const Node& node,
                                                       std::span<const UniqueFd> sockets,
                                                       OnMad on_mad) {
  std::unique_ptr<SocketPort> port(new SocketPort(node.interface_index, std::move(on_mad)));
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (auto added = port->add(node.addresses[i], sockets[i].get()); !added) {
      return std::unexpected(added.error());
    }
  }
  return port;
}

Result<void> SocketPort::add(const SocketAddress& address, int socket) {
  if (port_.gids().size() == port::kGidsMax) return refuse(ENOSPC, "too many addresses");
  // One socket to send from is enough: what the agent says is little.
  auto link = port::make_roce_link(address, interface_index_, buffers_, socket, 1);
  if (!link) return std::unexpected(link.error());
  port_.add_gid({gid_of(address), address}, std::move(*link));
  return {};
}

void SocketPort::on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                            const Gid&, TimeNs) {
  const auto gids = port_.gids();
  const auto own = std::ranges::find_if(gids, [own = address_of(to)](const auto& entry) {
    return same_roce_address(entry.address, own);
  });
  if (own == gids.end()) return;
  // Answers go to RoCE's port, whichever one the peer has sent from.
  const Path peer = roce_path(of_version(address_of(from), roce_version(own->address)));
  for (const wire::Packet& packet : packets) {
    if (!wire::pkeys_match(packet.headers.bth.pkey, kDefaultPKey)) continue;
    const auto datagram = wire::management_datagram_of(packet);
    if (!datagram) continue;
    on_mad_({.peer = peer,
             .own_address = static_cast<std::uint32_t>(own - gids.begin()),
             .source_qpn = datagram->source_qpn,
             .bytes = datagram->mad});
  }
}

void SocketPort::send(std::uint32_t address, const Path& path, wire::MadSpan mad) {
  if (address >= port_.gids().size()) return;
  psn_ = psn_ + 1;
  static_cast<void>(port::send_management(port_.links(address), path, psn_, mad));
}

}  // namespace verbatim::agent

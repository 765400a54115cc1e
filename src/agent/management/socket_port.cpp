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
  if (node.has_function()) {
    // Slot 0: who asks for the node's addresses is answered here.
    auto function = port::open_function(node.function.view(), 0, kLocalQpnBits, true);
    if (!function) return std::unexpected(function.error());
    port->function_ = std::move(*function);
  }
  for (std::size_t i = 0; i < node.addresses.size(); ++i) {
    const int socket = i < sockets.size() ? sockets[i].get() : -1;
    if (auto added = port->add(node.addresses[i], socket); !added) {
      return std::unexpected(added.error());
    }
  }
  port->receive();
  return port;
}

Result<void> SocketPort::add(const SocketAddress& address, int socket) {
  if (port_.gids().size() == port::kGidsMax) return refuse(ENOSPC, "too many addresses");
  // One socket to send from is enough: what the agent says is little.
  auto link = function_ != nullptr
                  ? port::make_function_link(address, function_)
                  : port::make_roce_link(address, interface_index_, buffers_, socket, 1);
  if (!link) return std::unexpected(link.error());
  port_.add_gid({gid_of(address), address}, std::move(*link));
  return {};
}

/// What is in shared memory makes its descriptor readable only if it has been said that this thread
/// sleeps. A flood leaves the others their turn: it comes again.
void SocketPort::receive() {
  constexpr int kRoundsMax = 16;
  for (int round = 0; round < kRoundsMax; ++round) {
    port_.receive(monotonic_now());
    if (port_.begin_sleep()) return;
  }
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

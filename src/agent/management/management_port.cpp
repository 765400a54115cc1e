#include "agent/management/management_port.h"

#include "agent/protocol/node.h"

namespace verbatim::agent {

Result<ManagementPort> ManagementPort::create(const NodeDescription& node,
                                              std::span<const UniqueFd> sockets) {
  ManagementPort port;
  port.receiver_ = std::make_unique<link::UdpReceiver>();
  port.interface_index_ = node.interface_index;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (auto added = port.add(node.addresses[i], sockets[i].get()); !added) {
      return std::unexpected(added.error());
    }
  }
  return port;
}

Result<void> ManagementPort::add(const SocketAddress& address, int fd) {
  auto socket = link::UdpSocket::adopt(fd);
  if (!socket) return std::unexpected(socket.error());
  sockets_.push_back(std::move(*socket));
  // One to send from is enough: what the agent says is little.
  addresses_.push_back(address);
  senders_.push_back(std::make_unique<link::UdpSender>(address, interface_index_, 1));
  return {};
}

std::vector<int> ManagementPort::fds() const {
  std::vector<int> fds;
  for (const auto& socket : sockets_) fds.push_back(socket.fd());
  return fds;
}

void ManagementPort::send(std::uint32_t address, const SocketAddress& destination,
                          wire::MadSpan mad) {
  if (address >= senders_.size()) return;
  const RoceVersion version = roce_version(addresses_[address]);
  const SocketAddress to = of_version(destination, version);
  const auto socket = senders_[address]->socket_for(to, wire::kManagementQpn);
  if (!socket) return;
  psn_ = psn_ + 1;
  const auto packet =
      wire::encode_management_packet(wire::flow_of((*socket)->local(), to), psn_, mad);
  static_cast<void>((*socket)->send(to, packet.bytes(), packet.bytes().size()));
}

}  // namespace verbatim::agent

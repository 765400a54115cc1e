#include "agent/management/management_port.h"

#include "agent/protocol/node.h"
#include "port/management.h"
#include "port/roce_link.h"

namespace verbatim::agent {

Result<ManagementPort> ManagementPort::create(const Node& node, std::span<const UniqueFd> sockets) {
  ManagementPort port;
  port.receiver_ = std::make_shared<link::UdpReceiver>();
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
  // One socket to send from is enough: what the agent says is little.
  auto link = port::make_roce_link(address, interface_index_, receiver_, -1, 1);
  if (!link) return std::unexpected(link.error());
  sockets_.push_back(std::move(*socket));
  links_.push_back(std::make_unique<link::Stack>(std::move(*link)));
  return {};
}

std::vector<int> ManagementPort::fds() const {
  std::vector<int> fds;
  for (const auto& socket : sockets_) fds.push_back(socket.fd());
  return fds;
}

void ManagementPort::send(std::uint32_t address, const Path& path, wire::MadSpan mad) {
  if (address >= links_.size()) return;
  psn_ = psn_ + 1;
  static_cast<void>(port::send_management(*links_[address], path, psn_, mad));
}

}  // namespace verbatim::agent

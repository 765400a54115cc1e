#include "link/udp/udp_link.h"

#include <cerrno>

namespace verbatim::link {
namespace {

void lead_to(Path& path, const SocketAddress& address) {
  std::get_if<RoceV2Path>(&path)->destination = address;
}

}  // namespace

UdpLink::UdpLink(const SocketAddress& local, std::uint32_t interface_index,
                 std::shared_ptr<UdpReceiver> buffers, std::size_t sockets_max)
    : interface_index_(interface_index),
      sender_(local, interface_index, sockets_max),
      sockets_(std::move(buffers)) {}

Result<void> UdpLink::receive_from(int fd) {
  auto socket = UdpSocket::adopt(fd);
  if (!socket) return std::unexpected(socket.error());
  sockets_.add(std::move(*socket), Gid{});
  return {};
}

Result<NextHop*> UdpLink::next_hop(const Path& path, Qpn destination, std::optional<TimeNs>) {
  const auto* const roce = std::get_if<RoceV2Path>(&path);
  if (roce == nullptr) {
    return refuse(EINVAL, fmt::format("RoCE v2 does not lead to {}", path_text(path)));
  }
  return sender_.socket_for(roce->destination, destination,
                            {.traffic_class = roce->grh.traffic_class,
                             .hop_limit = roce->grh.hop_limit,
                             .flow_label = sender_.local().is_ipv6() ? roce->grh.flow_label : 0});
}

int UdpLink::send(const Packets& packets) noexcept {
  const auto& socket = static_cast<const SendSocket&>(packets.to);
  return socket.send(std::get_if<RoceV2Path>(&packets.path)->destination, packets.pieces,
                     packets.packet_bytes);
}

std::size_t UdpLink::receive(Sink& sink, TimeNs now) {
  return sockets_.receive([&](const ReceivedDatagrams& datagrams, const Gid& group) {
    lead_to(from_, datagrams.source);
    lead_to(to_, datagrams.destination);
    sink.on_packets({&from_, &to_, group, datagrams.segment_size, datagrams.bytes}, now);
  });
}

Result<void> UdpLink::join(const MulticastGroup& group) {
  const auto address = resolve_gid(group.gid, interface_index_);
  if (!address) return std::unexpected(address.error());
  auto socket = UdpSocket::join_multicast(*address, sender_.local(), interface_index_);
  if (!socket) return std::unexpected(socket.error());
  sockets_.add(std::move(*socket), group.gid);
  return {};
}

}  // namespace verbatim::link

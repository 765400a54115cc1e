#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <net/if.h>
#include <netinet/udp.h>

#include "link/udp/udp.h"

namespace verbatim::link {
namespace {

/// Enough for a burst of several senders while the receiving thread is not scheduled.
constexpr int kReceiveBufferBytes = 4 << 20;
constexpr int kNoCheck6Receive = 102;  // UDP_NO_CHECK6_RX of linux/udp.h.

bool is_packet_socket(int fd) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_PACKET;
}

int add_membership(int fd, const SocketAddress& group, const SocketAddress& node_address,
                   std::uint32_t interface_index) {
  if (group.is_ipv6()) {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.ipv6_bytes().data(), 16);
    request.ipv6mr_interface = interface_index;
    return setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
  }
  ip_mreqn request{};
  std::memcpy(&request.imr_multiaddr, group.ipv4_bytes().data(), 4);
  std::memcpy(&request.imr_address, node_address.ipv4_bytes().data(), 4);
  request.imr_ifindex = static_cast<int>(interface_index);
  return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
}

}  // namespace

Result<UdpSocket> UdpSocket::adopt(int fd) {
  UdpSocket socket;
  socket.fd_ = fd;
  if (!is_packet_socket(fd)) {
    auto local = SocketAddress::of_socket(fd);
    if (!local) return std::unexpected(local.error());
    socket.local_ = *local;
  }
  socket.prepare();
  return socket;
}

Result<UdpSocket> UdpSocket::adopt(UniqueFd fd) {
  auto socket = adopt(fd.get());
  if (socket) socket->owned_ = std::move(fd);
  return socket;
}

Result<UdpSocket> UdpSocket::join_multicast(const SocketAddress& group,
                                            const SocketAddress& node_address,
                                            std::uint32_t interface_index) {
  if (!group.is_multicast()) {
    return refuse(EINVAL, fmt::format("{} is no multicast group", group.ip_text()));
  }
  UniqueFd fd(::socket(group.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("socket");

  const int on = 1;
  const SocketAddress local = group.port() != 0 ? group : group.with_port(kRocePort);
  // SO_REUSEADDR, not SO_REUSEPORT: each member gets a copy.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd.get(), local.data(), local.size()) != 0) {
    return refuse_errno(fmt::format("cannot bind {}", local));
  }
  if (add_membership(fd.get(), group, node_address, interface_index) != 0) {
    return refuse_errno(
        fmt::format("cannot join {} on interface {}", group.ip_text(), interface_index));
  }
  return adopt(std::move(fd));
}

void UdpSocket::prepare() {
  const int bytes = kReceiveBufferBytes;
  // The first can exceed net.core.rmem_max but needs CAP_NET_ADMIN; the second is limited to it.
  if (setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  int granted = 0;
  socklen_t length = sizeof granted;
  getsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &granted, &length);
  receive_buffer_bytes_ = static_cast<std::size_t>(granted);

  const int on = 1;
  // Kernels before 5.0 do not merge: datagrams are then received one by one.
  merges_ = setsockopt(fd_, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
  // RoCE v2 senders may omit the UDP checksum (annex A17.4.5.1), as Linux's rxe does, because the
  // ICRC covers more. Over IPv6 the kernel drops such datagrams by default.
  if (local_.is_ipv6()) setsockopt(fd_, IPPROTO_UDP, kNoCheck6Receive, &on, sizeof on);
}

}  // namespace verbatim::link

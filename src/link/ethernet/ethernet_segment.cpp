#include "link/ethernet/ethernet_segment.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace verbatim::link {
namespace {

/// Flags: the network identifier is valid; then the identifier.
constexpr std::array<std::byte, FrameBatch::kHeaderBytes> kHeader{
    std::byte{0x08},
    {},
    {},
    {},
    std::byte{EthernetSegment::kNetworkIdentifier >> 16},
    std::byte{EthernetSegment::kNetworkIdentifier >> 8 & 0xff},
    std::byte{EthernetSegment::kNetworkIdentifier & 0xff},
    {}};

}  // namespace

Result<EthernetSegment> EthernetSegment::open(const SocketAddress& address,
                                              std::uint32_t interface_index) {
  if (!address.is_ipv4()) {
    return refuse(EAFNOSUPPORT,
                  fmt::format("the emulated Ethernet of the loopback interface needs a node with "
                              "an IPv4 address; this one has {}",
                              address.ip_text()));
  }
  EthernetSegment segment;
  segment.interface_index_ = interface_index;
  segment.sender_ = std::make_unique<UdpSender>(address, interface_index, 1);
  const auto socket = segment.sender_->socket_for(group(), Qpn{});
  if (!socket) return std::unexpected(socket.error());
  segment.send_socket_ = *socket;
  return segment;
}

/// Frames of equal length are consecutive in the buffer and are sent as one segmented datagram.
int EthernetSegment::send(const FrameBatch& batch) const noexcept {
  for (std::size_t first = 0; first < batch.size();) {
    const MutableByteSpan start = batch.with_header(first);
    std::size_t end = first;
    for (; end < batch.size() && batch.with_header(end).size() == start.size(); ++end) {
      std::ranges::copy(kHeader, batch.with_header(end).begin());
    }
    const ByteSpan run(start.data(), start.size() * (end - first));
    if (const int error = send_socket_->send(group(), run, start.size()); error != 0) return error;
    first = end;
  }
  return 0;
}

Result<int> EthernetSegment::start_receiving() {
  auto socket = UdpSocket::join_multicast(group(), sender_->local(), interface_index_);
  if (!socket) return std::unexpected(socket.error());
  socket_ = std::move(*socket);
  if (!receiver_) receiver_ = std::make_unique<UdpReceiver>();
  return socket_->fd();
}

void EthernetSegment::stop_receiving() { socket_.reset(); }

bool EthernetSegment::is_frame(ByteSpan datagram) {
  return datagram.size() > kHeader.size() &&
         std::ranges::equal(datagram.first(kHeader.size()), kHeader);
}

}  // namespace verbatim::link

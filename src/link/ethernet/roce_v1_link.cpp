#include "link/ethernet/roce_v1_link.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "link/ethernet/roce_v1_socket.h"
#include "link/pieces.h"

namespace verbatim::link {
namespace {

/// How long a send waits for room in the send buffer. After that the frames count as lost, and the
/// transport retransmits them.
constexpr timeval kSendTimeout{0, 10'000};
constexpr int kSendBufferBytes = 4 << 20;
/// For all frames of one call.
constexpr std::size_t kPiecesMax = 1024;
/// A sender waits this long for neighbour discovery, at most once a second if no answer comes. On
/// an Ethernet it takes a fraction of a millisecond.
constexpr TimeNs kMoment = 20 * kMillisecond;

sockaddr_ll name_of(const LinkAddress& place) {
  sockaddr_ll name{};
  name.sll_family = AF_PACKET;
  name.sll_protocol = to_big_endian(kRoceV1EtherType);
  name.sll_ifindex = static_cast<int>(place.interface_index);
  name.sll_halen = static_cast<unsigned char>(place.mac.size());
  std::memcpy(name.sll_addr, place.mac.data(), place.mac.size());
  return name;
}

/// Sends each packet as a frame, with one system call for all.
int send_frames(int fd, const LinkAddress& place, std::span<const iovec> bytes,
                std::size_t frame_bytes) noexcept {
  sockaddr_ll name = name_of(place);
  std::array<iovec, kPiecesMax> pieces;
  std::array<mmsghdr, kSegmentsMax> messages{};
  std::size_t used = 0;
  unsigned count = 0;
  for (PieceCursor cursor(bytes); !cursor.at_end() && count < messages.size(); ++count) {
    const auto frame = cursor.take(frame_bytes, std::span(pieces).subspan(used));
    if (frame.empty()) return EMSGSIZE;
    used += frame.size();
    msghdr& message = messages[count].msg_hdr;
    message.msg_name = &name;
    message.msg_namelen = sizeof name;
    message.msg_iov = const_cast<iovec*>(frame.data());
    message.msg_iovlen = frame.size();
  }
  for (unsigned sent = 0; sent < count;) {
    const int more = sendmmsg(fd, &messages[sent], count - sent, MSG_NOSIGNAL);
    if (more < 0 && errno != EINTR) return errno;
    if (more > 0) sent += static_cast<unsigned>(more);
  }
  return 0;
}

}  // namespace

class RoceV1Link::Host final : public NextHop {
 public:
  Host(int fd, const SocketAddress& local, std::optional<LinkAddress> also) : fd_(fd), also_(also) {
    local_ = local;
  }
  void move_to(const LinkAddress& place) { place_.set(place); }
  int send(std::span<const iovec> bytes, std::size_t frame_bytes) const noexcept {
    const int error = send_frames(fd_, place_.get(), bytes, frame_bytes);
    return also_ ? send_frames(fd_, *also_, bytes, frame_bytes) : error;
  }

 private:
  const int fd_;
  AtomicLinkAddress place_;
  const std::optional<LinkAddress> also_;  // Groups: for the members on this machine.
};

RoceV1Link::RoceV1Link(const SocketAddress& local, std::uint32_t interface_index,
                       std::shared_ptr<UdpReceiver> buffers)
    : local_(local.with_port(0)), interface_index_(interface_index), sockets_(std::move(buffers)) {}

RoceV1Link::~RoceV1Link() = default;

Result<void> RoceV1Link::receive_from(int fd) {
  auto socket = UdpSocket::adopt(fd);
  if (!socket) return std::unexpected(socket.error());
  sockets_.add(std::move(*socket), Gid{});
  return {};
}

Result<NextHop*> RoceV1Link::next_hop(const Path& path, Qpn, std::optional<TimeNs> patience) {
  const auto* const roce = std::get_if<RoceV1Path>(&path);
  if (roce == nullptr) {
    return refuse(EINVAL, fmt::format("RoCE v1 does not lead to {}", path_text(path)));
  }
  const SocketAddress& destination = roce->destination;
  const auto place = find_neighbour(destination, patience);
  const std::scoped_lock lock(mutex_);
  if (const auto known = hosts_.find(destination); known != hosts_.end()) {
    if (place) known->second->move_to(*place);
    return known->second.get();
  }
  if (!place) return std::unexpected(place.error());
  if (hosts_.size() == kHostsMax) {
    return refuse(ENOBUFS, fmt::format("RoCE v1 to more than {} hosts", kHostsMax));
  }
  if (auto opened = open_sending(); !opened) return std::unexpected(opened.error());
  const unsigned loopback = if_nametoindex("lo");
  std::optional<LinkAddress> also;
  if (destination.is_multicast() && place->interface_index != loopback) {
    also = {.interface_index = loopback, .mac = place->mac};
  }
  auto host = std::make_unique<Host>(sending_.get(), local_, also);
  host->move_to(*place);
  return hosts_.emplace(destination, std::move(host)).first->second.get();
}

/// Requires the lock.
Result<void> RoceV1Link::open_sending() {
  if (sending_) return {};
  sending_.reset(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!sending_) return refuse_errno("RoCE v1 needs CAP_NET_RAW: packet socket");
  setsockopt(sending_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  setsockopt(sending_.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  return {};
}

/// Called without the lock, because it may wait.
Result<LinkAddress> RoceV1Link::find_neighbour(const SocketAddress& destination,
                                               std::optional<TimeNs> patience) {
  const bool is_patient = patience || monotonic_now() >= no_wait_until_;
  auto place = resolve_link_address(destination, interface_index_,
                                    patience.value_or(is_patient ? kMoment : TimeNs{}));
  if (!place && is_patient) no_wait_until_ = monotonic_now() + kSecond;
  return place;
}

int RoceV1Link::send(const Packets& packets) noexcept {
  return static_cast<const Host&>(packets.to).send(packets.pieces, packets.packet_bytes);
}

std::size_t RoceV1Link::receive(Sink& sink, TimeNs now) {
  return sockets_.receive([&](const ReceivedDatagrams& frame, const Gid& group) {
    sink.on_packets({nullptr, nullptr, group, frame.segment_size, frame.bytes}, now);
  });
}

Result<void> RoceV1Link::join(const MulticastGroup& group) {
  auto fd = open_group_frame_socket(group.gid, interface_index_);
  if (!fd) return std::unexpected(fd.error());
  auto socket = UdpSocket::adopt(std::move(*fd));
  if (!socket) return std::unexpected(socket.error());
  sockets_.add(std::move(*socket), group.gid);
  return {};
}

}  // namespace verbatim::link

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/udp.h>

#include "base/always_inline.h"
#include "base/bytes.h"
#include "base/log.h"
#include "link/udp/udp.h"

namespace verbatim::link {
namespace {

/// How long a send waits for room in the send buffer. Longer counts as loss, which the transport
/// repairs.
constexpr timeval kSendTimeout{0, 10'000};
constexpr int kSendBufferBytes = 4 << 20;
/// The scatter/gather pieces of one segment: its headers, payload pieces, padding and ICRC.
constexpr std::size_t kPiecesMax = 64;
/// Of all frames of one call.
constexpr std::size_t kFramePiecesMax = 1024;
/// That one address of a node sends frames to.
constexpr std::size_t kHostsMax = 1 << 10;
/// Who sends in passing waits this long for a neighbour's answer, once a second at most where none
/// comes: on an Ethernet it takes a fraction of a millisecond.
constexpr TimeNs kMoment = 20 * kMillisecond;

std::size_t total_bytes(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

msghdr message_to(const SocketAddress& destination, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(destination.data());
  message.msg_namelen = destination.size();
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

/// Walks through pieces of memory, taking the next bytes as pieces of their own.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const iovec> pieces) : pieces_(pieces) {}
  bool at_end() const { return index_ == pieces_.size(); }

  /// The next `bytes` (fewer at the end) as at most `out.size()` pieces; an empty span where more
  /// pieces would be needed.
  std::span<const iovec> take(std::size_t bytes, std::span<iovec> out) {
    std::size_t count = 0;
    while (bytes > 0 && !at_end()) {
      if (count == out.size()) return {};
      const iovec& piece = pieces_[index_];
      const std::size_t length = std::min(bytes, piece.iov_len - offset_);
      if (length > 0) out[count++] = {static_cast<char*>(piece.iov_base) + offset_, length};
      bytes -= length;
      offset_ += length;
      if (offset_ == piece.iov_len) {
        ++index_;
        offset_ = 0;
      }
    }
    return out.first(count);
  }

 private:
  std::span<const iovec> pieces_;
  std::size_t index_ = 0;
  std::size_t offset_ = 0;
};

sockaddr_ll link_to(const LinkAddress& place) {
  sockaddr_ll link{};
  link.sll_family = AF_PACKET;
  link.sll_protocol = to_big_endian(kRoceV1EtherType);
  link.sll_ifindex = static_cast<int>(place.interface_index);
  link.sll_halen = static_cast<unsigned char>(place.mac.size());
  std::memcpy(link.sll_addr, place.mac.data(), place.mac.size());
  return link;
}

/// Settings that a send socket cannot do without; what failed, or nothing.
const char* prepare(int fd, const SocketAddress& local, std::uint32_t interface_index) {
  const auto set = [fd](int level, int name, const auto& value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
  };
  if (!set(SOL_SOCKET, SO_SNDTIMEO, kSendTimeout)) return "SO_SNDTIMEO";
  // A smaller buffer than wished serves too, and the kernel cuts it to net.core.wmem_max.
  if (!set(SOL_SOCKET, SO_SNDBUFFORCE, kSendBufferBytes))
    set(SOL_SOCKET, SO_SNDBUF, kSendBufferBytes);

  // PROBE, not DO: only the interface's MTU limits a datagram. The path's MTU comes in ICMP errors,
  // which any host can forge; with DO each send would then fail for ten minutes.
  const int on = 1;
  if (local.is_ipv6()) {
    if (!set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, int{IPV6_PMTUDISC_PROBE})) return "IPV6_MTU_DISCOVER";
    if (!set(IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface_index)) ||
        !set(IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on)) {
      return "IPV6_MULTICAST_IF";
    }
    return nullptr;
  }
  // PROBE is don't-fragment: IBA A17.4.3 forbids fragments, and the kernel then numbers the
  // segments of one call 0, 1, 2... in the IP identification, which the ICRC covers.
  if (!set(IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_PROBE})) return "IP_MTU_DISCOVER";
  ip_mreqn interface{};
  std::memcpy(&interface.imr_address, local.ipv4_bytes().data(), 4);
  interface.imr_ifindex = static_cast<int>(interface_index);
  if (!set(IPPROTO_IP, IP_MULTICAST_IF, interface) || !set(IPPROTO_IP, IP_MULTICAST_LOOP, on)) {
    return "IP_MULTICAST_IF";
  }
  return nullptr;
}

}  // namespace

VERBATIM_ALWAYS_INLINE int SendSocket::send_message(const msghdr& message) const noexcept {
  while (sendmsg(fd_, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EMSGSIZE) return tell_too_large(message);
    if (errno != EINTR) return errno;
  }
  return 0;
}

[[gnu::cold, gnu::noinline]] int SendSocket::tell_too_large(const msghdr& message) const noexcept {
  const auto* const name = static_cast<const sockaddr*>(message.msg_name);
  const auto destination = SocketAddress::from(name, message.msg_namelen);
  if (destination && !has_told_.exchange(true, std::memory_order_relaxed)) {
    log(LogLevel::warn,
        "packets from {} to {} are lost, for the network interface's MTU is smaller: choose a "
        "smaller path MTU (-m of perftest and the ping-pong programs), or raise the interface's",
        local_.ip_text(), destination->ip_text());
  }
  return EMSGSIZE;
}

int SendSocket::send(const SocketAddress& destination, std::span<const iovec> bytes,
                     std::size_t segment_size) const noexcept {
  const std::size_t total = total_bytes(bytes);
  if (total > kSendBytesMax) return EMSGSIZE;
  const bool is_one = segment_size == 0 || total <= segment_size;
  if (!is_one && (total + segment_size - 1) / segment_size > kSegmentsMax) return EMSGSIZE;
  if (has_frames_) {
    const std::size_t frame_bytes = is_one ? total : segment_size;
    const int error = send_frames(bytes, frame_bytes, place_.get());
    return also_ ? send_frames(bytes, frame_bytes, *also_) : error;
  }
  if (is_one) return send_message(message_to(destination, bytes));
  if (!segments_.load(std::memory_order_relaxed)) {
    return send_one_by_one(destination, bytes, segment_size);
  }
  const int error = send_segmented(destination, bytes, segment_size);
  // EIO: the interface computes no checksums, so the kernel does not segment for it. EINVAL: it has
  // no UDP_SEGMENT (before 4.18), or a segment is larger than the path's MTU: sending one by one
  // tells which. Any other error would hit a single datagram too.
  if (error != EIO && error != EINVAL) return error;
  const int single_error = send_one_by_one(destination, bytes, segment_size);
  if (single_error == 0) segments_.store(false, std::memory_order_relaxed);
  return single_error;
}

int SendSocket::send(const SocketAddress& destination, ByteSpan bytes,
                     std::size_t segment_size) const noexcept {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send(destination, std::span(&piece, 1), segment_size);
}

/// One frame each, with one system call.
int SendSocket::send_frames(std::span<const iovec> bytes, std::size_t segment_size,
                            const LinkAddress& place) const noexcept {
  sockaddr_ll link = link_to(place);
  std::array<iovec, kFramePiecesMax> pieces;
  std::array<mmsghdr, kSegmentsMax> messages{};
  std::size_t used = 0;
  unsigned count = 0;
  for (PieceCursor cursor(bytes); !cursor.at_end() && count < messages.size(); ++count) {
    const auto frame = cursor.take(segment_size, std::span(pieces).subspan(used));
    if (frame.empty()) return EMSGSIZE;
    used += frame.size();
    msghdr& message = messages[count].msg_hdr;
    message.msg_name = &link;
    message.msg_namelen = sizeof link;
    message.msg_iov = const_cast<iovec*>(frame.data());
    message.msg_iovlen = frame.size();
  }
  for (unsigned sent = 0; sent < count;) {
    const int more = sendmmsg(fd_, &messages[sent], count - sent, MSG_NOSIGNAL);
    if (more < 0 && errno != EINTR) return errno;
    if (more > 0) sent += static_cast<unsigned>(more);
  }
  return 0;
}

int SendSocket::send_segmented(const SocketAddress& destination, std::span<const iovec> bytes,
                               std::size_t segment_size) const noexcept {
  union {
    cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(std::uint16_t))];
  } control{};
  msghdr message = message_to(destination, bytes);
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = IPPROTO_UDP;
  header->cmsg_type = UDP_SEGMENT;
  header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto size = static_cast<std::uint16_t>(segment_size);
  std::memcpy(CMSG_DATA(header), &size, sizeof size);
  return send_message(message);
}

int SendSocket::send_one_by_one(const SocketAddress& destination, std::span<const iovec> bytes,
                                std::size_t segment_size) const noexcept {
  std::array<iovec, kPiecesMax> pieces;
  for (PieceCursor cursor(bytes); !cursor.at_end();) {
    const auto segment = cursor.take(segment_size, pieces);
    if (segment.empty()) return cursor.at_end() ? 0 : EMSGSIZE;
    if (const int error = send_message(message_to(destination, segment))) return error;
  }
  return 0;
}

UdpSender::UdpSender(const SocketAddress& local, std::uint32_t interface_index,
                     std::size_t sockets_max)
    : local_(local.with_port(0)), interface_index_(interface_index), sockets_max_(sockets_max) {}

Result<const SendSocket*> UdpSender::socket_for(const SocketAddress& destination,
                                                Qpn destination_qpn,
                                                std::optional<TimeNs> timeout) {
  if (roce_version(destination) == RoceVersion::v1) return frames_to(destination, timeout);
  // The programs of a node own ranges of 2^14 queue pair numbers each (agent/protocol/node.h). A
  // peer of another make does not divide them so, which only costs it sockets.
  const Program program{destination, destination_qpn.value() >> 14};
  const std::scoped_lock lock(mutex_);
  if (const SendSocket* const socket = known(program)) return socket;
  if (sockets_.size() == sockets_max_) {
    const std::size_t hash = std::hash<SocketAddress>()(destination) * 31 + program.slot;
    return sockets_[hash % sockets_.size()].get();
  }
  auto socket = open();
  if (!socket) return std::unexpected(socket.error());
  programs_.push_back(program);
  return sockets_.emplace_back(std::move(*socket)).get();
}

SendSocket* UdpSender::known(const Program& program) const {
  const auto found = std::ranges::find(programs_, program);
  return found == programs_.end() ? nullptr : sockets_[found - programs_.begin()].get();
}

Result<std::unique_ptr<SendSocket>> UdpSender::open() const {
  std::unique_ptr<SendSocket> socket(new SendSocket);
  socket->owned_.reset(::socket(local_.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int fd = socket->fd_ = socket->owned_.get();
  if (fd < 0) return refuse_errno("socket");
  if (const char* failed = prepare(fd, local_, interface_index_)) {
    return refuse_errno(fmt::format("{} from {}", failed, local_.ip_text()));
  }
  if (bind(fd, local_.data(), local_.size()) != 0) {
    return refuse_errno(fmt::format("cannot send from {}", local_.ip_text()));
  }
  auto local = SocketAddress::of_socket(fd);
  if (!local) return std::unexpected(local.error());
  socket->local_ = *local;
  return socket;
}

/// Frames are not merged: hosts share one socket, which is told the Ethernet address each time and
/// whose kernel writes the header.
Result<const SendSocket*> UdpSender::frames_to(const SocketAddress& destination,
                                               std::optional<TimeNs> timeout) {
  const auto place = find_neighbour(destination, timeout);
  const std::scoped_lock lock(mutex_);
  if (SendSocket* const socket = known({destination, 0})) {
    if (place) socket->place_.set(*place);
    return socket;
  }
  if (!place) return std::unexpected(place.error());
  if (sockets_.size() == kHostsMax) {
    return refuse(ENOBUFS, fmt::format("RoCE v1 to more than {} hosts", kHostsMax));
  }
  if (!frames_) {
    frames_.reset(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!frames_) return refuse_errno("RoCE v1 needs CAP_NET_RAW: packet socket");
    setsockopt(frames_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
    setsockopt(frames_.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  }
  std::unique_ptr<SendSocket> socket(new SendSocket);
  socket->fd_ = frames_.get();
  socket->local_ = local_;
  socket->has_frames_ = true;
  socket->place_.set(*place);
  const unsigned loopback = if_nametoindex("lo");
  if (destination.is_multicast() && place->interface_index != loopback) {
    socket->also_ = {.interface_index = loopback, .mac = place->mac};
  }
  programs_.push_back({destination, 0});
  return sockets_.emplace_back(std::move(socket)).get();
}

/// Called without the lock: it may wait.
Result<LinkAddress> UdpSender::find_neighbour(const SocketAddress& destination,
                                              std::optional<TimeNs> timeout) {
  const bool is_patient = timeout || monotonic_now() >= no_wait_until_;
  auto place = resolve_link_address(destination, interface_index_,
                                    timeout.value_or(is_patient ? kMoment : TimeNs{}));
  if (!place && is_patient) no_wait_until_ = monotonic_now() + kSecond;
  return place;
}

}  // namespace verbatim::link

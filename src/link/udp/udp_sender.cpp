#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <netinet/udp.h>

#include "base/always_inline.h"
#include "base/bytes.h"
#include "base/log.h"
#include "link/pieces.h"
#include "link/udp/udp.h"

namespace verbatim::link {
namespace {

/// How long a send waits for room in the send buffer. After that the datagrams count as lost, and
/// the transport retransmits them.
constexpr timeval kSendTimeout{0, 10'000};
constexpr int kSendBufferBytes = 4 << 20;
/// Pieces of one segment: its headers, payload pieces, padding and ICRC.
constexpr std::size_t kPiecesMax = 64;

msghdr message_to(const SocketAddress& destination, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(destination.data());
  message.msg_namelen = destination.size();
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return message;
}

/// Returns true unless the kernel says that no socket of this network namespace has the address.
bool has_listener(const SocketAddress& ipv4) {
  std::ifstream table("/proc/net/udp");
  const std::string text{std::istreambuf_iterator<char>(table), {}};
  std::uint32_t bytes = 0;  // As they are in memory, which is how the kernel prints them.
  std::memcpy(&bytes, ipv4.ipv4_bytes().data(), sizeof bytes);
  return text.empty() || text.contains(fmt::format(" {:08X}:{:04X} ", bytes, ipv4.port())) ||
         text.contains(fmt::format(" {:08X}:{:04X} ", 0, ipv4.port()));
}

/// Returns false if the kernel knows no way between the two.
bool has_way(const SocketAddress& local, const SocketAddress& destination) {
  const UniqueFd fd(::socket(local.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return bind(fd.get(), local.data(), local.size()) != 0 ||
         connect(fd.get(), destination.data(), destination.size()) == 0;
}

/// A node without an address of the network is the usual reason why two machines hear nothing of
/// each other.
void warn_of_loopback(const SocketAddress& local, const SocketAddress& destination) {
  if (!local.is_loopback() || destination.is_multicast()) return;
  if (!destination.is_loopback()) {
    if (has_way(local, destination)) return;
    return log(LogLevel::warn,
               "{} is on another machine, which {} cannot reach: give the node an address of the "
               "network (verbatim run --address, VERBATIM_ADDRESS)",
               destination.ip_text(), local.ip_text());
  }
  if (destination.is_ipv6() || has_listener(destination)) return;
  log(LogLevel::warn,
      "no node of this machine has the address {}. If the peer is on another machine, both nodes "
      "need an address of the network (verbatim run --address, VERBATIM_ADDRESS)",
      destination.ip_text());
}

/// Applies the required settings of a send socket; returns the name of the one that failed, or
/// null.
const char* prepare(int fd, const SocketAddress& local, std::uint32_t interface_index) {
  const auto set = [fd](int level, int name, const auto& value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
  };
  if (!set(SOL_SOCKET, SO_SNDTIMEO, kSendTimeout)) return "SO_SNDTIMEO";
  // A smaller buffer is sufficient, too; the kernel limits it to net.core.wmem_max.
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
  // PROBE sets don't-fragment, because IBA A17.4.3 forbids fragments; the kernel then numbers the
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
  while (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) < 0) {
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
  if (is_one) return send_message(message_to(destination, bytes));
  if (!segments_.load(std::memory_order_relaxed)) {
    return send_one_by_one(destination, bytes, segment_size);
  }
  const int error = send_segmented(destination, bytes, segment_size);
  // EIO: the interface computes no checksums, so the kernel does not segment for it. EINVAL: no
  // UDP_SEGMENT (before 4.18), or a segment is larger than the path's MTU; sending one by one shows
  // which. Any other error would occur for a single datagram, too.
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

Result<SendSocket*> UdpSender::socket_for(const SocketAddress& destination, Qpn destination_qpn) {
  // Each program of a node owns a range of 2^14 queue pair numbers (agent/protocol/node.h). Peers
  // of other vendors do not divide them like this, which only costs sockets.
  const Program program{destination, destination_qpn.value() >> 14};
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(programs_, program);
  if (known != programs_.end()) return sockets_[known - programs_.begin()].get();
  if (sockets_.size() == sockets_max_) {
    const std::size_t hash = std::hash<SocketAddress>()(destination) * 31 + program.slot;
    return sockets_[hash % sockets_.size()].get();
  }
  auto socket = open();
  if (!socket) return std::unexpected(socket.error());
  const bool is_new =
      std::ranges::find(programs_, destination, &Program::destination) == programs_.end();
  if (is_new) warn_of_loopback(local_, destination);
  programs_.push_back(program);
  return sockets_.emplace_back(std::move(*socket)).get();
}

Result<std::unique_ptr<SendSocket>> UdpSender::open() const {
  UniqueFd fd(::socket(local_.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return refuse_errno("socket");
  if (const char* failed = prepare(fd.get(), local_, interface_index_)) {
    return refuse_errno(fmt::format("{} from {}", failed, local_.ip_text()));
  }
  if (bind(fd.get(), local_.data(), local_.size()) != 0) {
    return refuse_errno(fmt::format("cannot send from {}", local_.ip_text()));
  }
  const auto local = SocketAddress::of_socket(fd.get());
  if (!local) return std::unexpected(local.error());
  return std::unique_ptr<SendSocket>(new SendSocket(std::move(fd), *local));
}

}  // namespace verbatim::link

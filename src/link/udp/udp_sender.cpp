#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <endian.h>
#include <linux/in6.h>
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

/// The same for the fields of its IP headers.
const char* set_fields(int fd, bool is_ipv6, const IpFields& fields) {
  struct Row {
    int level, name, value;
    const char* text;
  };
  const int hops = fields.hop_limit, traffic_class = fields.traffic_class;
  const Row of_ipv4[] = {{IPPROTO_IP, IP_TOS, traffic_class, "IP_TOS"},
                         {IPPROTO_IP, IP_TTL, hops, "IP_TTL"},
                         {IPPROTO_IP, IP_MULTICAST_TTL, hops, "IP_MULTICAST_TTL"}};
  const Row of_ipv6[] = {{IPPROTO_IPV6, IPV6_TCLASS, traffic_class, "IPV6_TCLASS"},
                         {IPPROTO_IPV6, IPV6_UNICAST_HOPS, hops, "IPV6_UNICAST_HOPS"},
                         {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops, "IPV6_MULTICAST_HOPS"},
                         {IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0, "IPV6_AUTOFLOWLABEL"}};
  for (const Row& row : is_ipv6 ? std::span<const Row>(of_ipv6) : std::span<const Row>(of_ipv4)) {
    if (setsockopt(fd, row.level, row.name, &row.value, sizeof row.value) != 0) return row.text;
  }
  return nullptr;
}

}  // namespace

/// Without a lease, which another user's exclusive one prevents, datagrams have no label.
void SendSocket::lease_flow_label(const SocketAddress& destination, std::uint32_t flow_label) {
  in6_flowlabel_req request{};
  std::memcpy(&request.flr_dst, destination.ipv6_bytes().data(), sizeof request.flr_dst);
  request.flr_label = htobe32(flow_label);
  request.flr_action = IPV6_FL_A_GET;
  request.flr_share = IPV6_FL_S_ANY;
  request.flr_flags = IPV6_FL_F_CREATE;
  const int on = 1;
  if (setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof request) == 0 &&
      setsockopt(fd_.get(), IPPROTO_IPV6, IPV6_FLOWINFO_SEND, &on, sizeof on) == 0) {
    flow_label_ = flow_label;
    return;
  }
  log(LogLevel::warn, "packets to {} have no flow label, for the kernel refuses {:#x}: {}",
      destination.ip_text(), flow_label, std::strerror(errno));
}

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
  if (flow_label_ == 0) return send_to(destination, bytes, segment_size);
  sockaddr_in6 labelled;
  std::memcpy(&labelled, destination.data(), sizeof labelled);
  labelled.sin6_flowinfo = htobe32(flow_label_);
  const auto address =
      SocketAddress::from(reinterpret_cast<const sockaddr*>(&labelled), sizeof labelled);
  return send_to(*address, bytes, segment_size);
}

int SendSocket::send_to(const SocketAddress& destination, std::span<const iovec> bytes,
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

/// The socket of another program with the same fields, if there is one. `any_label`: its flow label
/// may be another one.
SendSocket* UdpSender::shared(const Program& program, bool any_label) const {
  std::vector<std::size_t> alike;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    IpFields fields = programs_[i].fields;
    if (any_label) fields.flow_label = program.fields.flow_label;
    if (fields == program.fields) alike.push_back(i);
  }
  if (alike.empty()) return nullptr;
  const std::size_t hash = std::hash<SocketAddress>()(program.destination) * 31 + program.slot;
  return sockets_[alike[hash % alike.size()]].get();
}

Result<SendSocket*> UdpSender::socket_for(const SocketAddress& destination, Qpn destination_qpn,
                                          const IpFields& fields) {
  // Each program of a node owns a range of 2^14 queue pair numbers (agent/protocol/node.h). Peers
  // of other vendors do not divide them like this, which only costs sockets.
  const Program program{destination, destination_qpn.value() >> 14, fields};
  bool is_new = false;
  auto socket = find_or_open(program, is_new);
  if (is_new) warn_of_loopback(local_, destination);
  return socket;
}

Result<SendSocket*> UdpSender::find_or_open(const Program& program, bool& is_new) {
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(programs_, program);
  if (known != programs_.end()) return sockets_[known - programs_.begin()].get();
  if (sockets_.size() >= sockets_max_) {
    if (SendSocket* const other = shared(program, false)) return other;
    if (sockets_.size() >= sockets_max_ + kFieldsMax) {
      // Flow labels that differ for each connection spread flows, and matter least.
      if (SendSocket* const other = shared(program, true)) return other;
      return refuse(ENOBUFS,
                    fmt::format("{} kinds of IP headers from {}", kFieldsMax, local_.ip_text()));
    }
  }
  auto socket = open(program);
  if (!socket) return std::unexpected(socket.error());
  is_new =
      std::ranges::find(programs_, program.destination, &Program::destination) == programs_.end();
  programs_.push_back(program);
  return sockets_.emplace_back(std::move(*socket)).get();
}

Result<std::unique_ptr<SendSocket>> UdpSender::open(const Program& program) const {
  UniqueFd fd(::socket(local_.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return refuse_errno("socket");
  const char* failed = prepare(fd.get(), local_, interface_index_);
  if (failed == nullptr) failed = set_fields(fd.get(), local_.is_ipv6(), program.fields);
  if (failed != nullptr) return refuse_errno(fmt::format("{} from {}", failed, local_.ip_text()));
  if (bind(fd.get(), local_.data(), local_.size()) != 0) {
    return refuse_errno(fmt::format("cannot send from {}", local_.ip_text()));
  }
  const auto local = SocketAddress::of_socket(fd.get());
  if (!local) return std::unexpected(local.error());
  std::unique_ptr<SendSocket> socket(new SendSocket(std::move(fd), *local));
  if (local_.is_ipv6() && program.fields.flow_label != 0) {
    socket->lease_flow_label(program.destination, program.fields.flow_label);
  }
  return socket;
}

}  // namespace verbatim::link

#include "ulp/rsocket/datagram/datagram.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>

#include "ulp/rsocket/rsocket.h"

namespace verbatim::rsocket {
namespace {

constexpr std::uint32_t kUdpTag = 0x55555555;
constexpr std::size_t kWaitingMax = 4096;
constexpr int kResolveMs = 2000;

bool is_wildcard(const SocketAddress& address) {
  return address.is_ipv4() ? address.ipv4_bytes() == std::array<std::uint8_t, 4>{}
                           : address.ipv6_bytes() == std::array<std::uint8_t, 16>{};
}

SocketAddress name_of(int fd) { return SocketAddress::of_socket(fd).value_or(SocketAddress()); }

/// Writes the header of a UDP datagram and returns its length.
std::size_t put_udp_header(Op op, std::uint32_t qpn, const SocketAddress& local, std::byte* to) {
  const std::size_t length = local.is_ipv4() ? 16 : kUdpHeaderMax;
  store_be(to, kUdpTag);
  to[4] = std::byte{static_cast<unsigned char>(local.is_ipv4() ? 4 : 6)};
  to[5] = static_cast<std::byte>(op);
  to[6] = static_cast<std::byte>(length);
  to[7] = std::byte{0};
  store_be(to + 8, qpn & 0xffffff);
  if (local.is_ipv4()) {
    std::memcpy(to + 12, local.ipv4_bytes().data(), 4);
  } else {
    std::memcpy(to + 12, local.ipv6_bytes().data(), 16);
  }
  return length;
}

/// Space for the ancillary data that sets a datagram's source address.
union SourceControl {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> bytes;
};

void put_source(const SocketAddress& source, msghdr& message, SourceControl& control) {
  const bool ipv4 = source.is_ipv4();
  message.msg_control = control.bytes.data();
  message.msg_controllen = ipv4 ? CMSG_SPACE(sizeof(in_pktinfo)) : CMSG_SPACE(sizeof(in6_pktinfo));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  header->cmsg_type = ipv4 ? IP_PKTINFO : IPV6_PKTINFO;
  if (ipv4) {
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, source.ipv4_bytes().data(), 4);
    header->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  } else {
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, source.ipv6_bytes().data(), 16);
    header->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  }
}

}  // namespace

Outcome<std::shared_ptr<Datagram>> Datagram::make(int domain) {
  auto handle = Handle::make();
  if (!handle) return fail(handle.error());
  std::shared_ptr<Datagram> datagram(new Datagram(std::move(*handle)));
  datagram->udp_ = UniqueFd(::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (datagram->udp_.get() < 0) return fail(errno);
  if (auto ok = datagram->handle_.add(datagram->udp_.get()); !ok) return fail(ok.error());
  return datagram;
}

Datagram::~Datagram() {
  for (const Peer& peer : peers_) {
    if (peer.ah != nullptr) ibv_destroy_ah(peer.ah);
  }
}

Outcome<void> Datagram::bind(const sockaddr* address, socklen_t length) {
  std::unique_lock lock(mutex_);
  if (::bind(udp_.get(), address, length) != 0) return fail(errno);
  const SocketAddress local = name_of(udp_.get());
  // A socket bound to a specific address gets its queue pair at once: peers may ask for it.
  if (!is_wildcard(local)) static_cast<void>(port_at(local));
  return {};
}

Outcome<void> Datagram::connect(const sockaddr* address, socklen_t length) {
  std::unique_lock lock(mutex_);
  const auto peer = SocketAddress::from(address, length);
  if (!peer) return fail(peer.error().code);
  auto known = peer_at(*peer);
  if (!known) return fail(known.error());
  connected_ = *peer;
  return {};
}

/// Returns the local address for a peer: the UDP socket's, if it is bound to a specific one.
Outcome<SocketAddress> Datagram::local_for(const SocketAddress& peer) {
  const SocketAddress bound = name_of(udp_.get());
  if (!is_wildcard(bound)) return bound;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_UDP) != 0) return fail(errno);
  const std::unique_ptr<rdma_cm_id, int (*)(rdma_cm_id*)> owned(id, &rdma_destroy_id);
  if (rdma_resolve_addr(id, nullptr, const_cast<sockaddr*>(peer.data()), kResolveMs) != 0) {
    return fail(errno);
  }
  const sockaddr* local = rdma_get_local_addr(id);
  auto address = SocketAddress::from(
      local, local->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  if (!address) return fail(address.error().code);
  if (bound.port() == 0) {  // The UDP socket has a name from now on.
    const SocketAddress any = address->with_port(0);
    if (::bind(udp_.get(), any.data(), any.size()) != 0) return fail(errno);
  }
  return address->with_port(name_of(udp_.get()).port());
}

Outcome<DatagramPort*> Datagram::port_at(const SocketAddress& local) {
  for (const auto& port : ports_) {
    if (port->local() == local) return port.get();
  }
  auto port = DatagramPort::make(local, sizes_);
  if (!port) return fail(port.error());
  if (auto ok = handle_.add((*port)->channel()); !ok) return fail(ok.error());
  (*port)->arm();
  ports_.push_back(std::move(*port));
  return ports_.back().get();
}

Outcome<Datagram::Peer*> Datagram::peer_at(const SocketAddress& address) {
  for (Peer& peer : peers_) {
    if (peer.address == address) return &peer;
  }
  auto local = local_for(address);
  if (!local) return fail(local.error());
  auto port = port_at(*local);
  if (!port) return fail(port.error());
  peers_.push_back({.address = address, .port = *port});
  return &peers_.back();
}

Outcome<std::size_t> Datagram::send(const Message& message) {
  if ((message.flags & MSG_OOB) != 0) return unsupported("datagrams have no urgent data");
  std::unique_lock lock(mutex_);
  SocketAddress to = connected_;
  if (message.address != nullptr) {
    auto given = SocketAddress::from(message.address, *message.length);
    if (!given) return fail(given.error().code);
    to = *given;
  }
  if (to.empty()) return fail(EDESTADDRREQ);
  if (shut_) return fail(EPIPE);
  wake_locked(true);
  auto peer = peer_at(to);
  if (!peer) return fail(peer.error());
  Cursor from(message.pieces);
  const std::size_t bytes = from.left();
  if (bytes + kUdpHeaderMax > kDatagramBytes) return fail(EMSGSIZE);
  if ((*peer)->ah == nullptr) {
    if (auto ok = send_udp(**peer, Op::data, message.pieces); !ok) return fail(ok.error());
    return bytes;
  }
  DatagramPort& port = *(*peer)->port;
  if (auto ok = wait_until(lock, waits(message.flags), [&port] { return port.can_send(); }); !ok) {
    return fail(ok.error());
  }
  if (auto ok = port.send((*peer)->ah, (*peer)->qpn, from); !ok) return fail(ok.error());
  return bytes;
}

Outcome<void> Datagram::send_udp(const Peer& peer, Op op, std::span<const iovec> pieces) {
  std::array<std::byte, kDatagramBytes> buffer;
  const std::size_t header =
      put_udp_header(op, peer.port->number(), peer.port->local(), buffer.data());
  Cursor from(pieces);
  const std::size_t bytes = from.left();
  from.read(buffer.data() + header, bytes);
  iovec piece{buffer.data(), header + bytes};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(peer.address.data());
  message.msg_namelen = peer.address.size();
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  SourceControl control{};
  put_source(peer.port->local(), message, control);
  if (::sendmsg(udp_.get(), &message, MSG_NOSIGNAL) < 0) return fail(errno);
  return {};
}

void Datagram::take_udp() {
  std::array<std::byte, kDatagramBytes + kUdpHeaderMax> buffer;
  for (;;) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    const ssize_t bytes =
        ::recvfrom(udp_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, address, &length);
    if (bytes < 0) return;
    const auto from = SocketAddress::from(address, length);
    if (from) on_udp(ByteSpan(buffer).first(static_cast<std::size_t>(bytes)), *from);
  }
}

void Datagram::on_udp(ByteSpan bytes, const SocketAddress& from) {
  if (bytes.size() < 16 || load_be<std::uint32_t>(bytes.data()) != kUdpTag) return;
  const std::size_t header = from.is_ipv4() ? 16 : kUdpHeaderMax;
  if (bytes[6] != static_cast<std::byte>(header) || bytes.size() < header) return;
  const auto op = static_cast<Op>(bytes[5]);
  const std::uint32_t qpn = load_be<std::uint32_t>(&bytes[8]) & 0xffffff;
  if (op == Op::data) deliver(from, bytes.subspan(header));
  auto found = peer_at(from);
  if (!found) return;
  Peer& peer = **found;
  if (op == Op::data) static_cast<void>(send_udp(peer, Op::control, {}));
  if (peer.ah != nullptr && peer.qpn == qpn) return;
  if (auto ah = peer.port->address_handle_for(peer.address)) {
    if (peer.ah != nullptr) ibv_destroy_ah(peer.ah);
    peer.ah = *ah;
    peer.qpn = qpn;
  }
}

void Datagram::deliver(const SocketAddress& from, ByteSpan bytes) {
  if (waiting_.size() >= kWaitingMax) return;  // Dropped, as by a full socket buffer.
  waiting_.push_back({from, {bytes.begin(), bytes.end()}});
  note_edge();
}

void Datagram::process() {
  for (const auto& port : ports_) {
    while (waiting_.size() < kWaitingMax) {
      auto received = port->next();
      if (!received) break;
      waiting_.push_back({received->from, std::move(received->bytes)});
      note_edge();
    }
  }
}

void Datagram::arm_locked() {
  for (const auto& port : ports_) port->arm();
}

void Datagram::wake_locked(bool surely) {
  process();
  if (surely || waiting_.empty()) take_udp();
}

void Datagram::arm() {
  std::unique_lock lock(mutex_);
  arm_locked();
}

bool Datagram::armed_locked() const {
  return std::ranges::all_of(ports_, [](const auto& port) { return port->armed(); });
}

bool Datagram::armed() {
  std::unique_lock lock(mutex_);
  return armed_locked();
}

void Datagram::wake() {
  std::unique_lock lock(mutex_);
  note_edge();  // Perhaps there is room.
  wake_locked(true);
}

Outcome<std::size_t> Datagram::receive(const Message& message) {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return !waiting_.empty() || shut_; };
  if (waiting_.empty()) process();
  if (auto ok = wait_until(lock, waits(message.flags), done); !ok) return fail(ok.error());
  if (waiting_.empty()) return 0;
  const Waiting& first = waiting_.front();
  Cursor to(message.pieces);
  const std::size_t bytes = std::min(to.left(), first.bytes.size());
  to.write(first.bytes.data(), bytes);
  copy_address(first.from.data(), message.address, message.length);
  const std::size_t whole = first.bytes.size();
  if ((message.flags & MSG_PEEK) == 0) waiting_.pop_front();
  return (message.flags & MSG_TRUNC) != 0 ? whole : bytes;
}

short Datagram::ready(short events) {
  std::unique_lock lock(mutex_);
  wake_locked(true);
  short found = 0;
  if (!waiting_.empty() || shut_) found |= POLLIN | POLLRDNORM;
  const auto can = [](const auto& port) { return port->can_send(); };
  if (std::ranges::all_of(ports_, can)) found |= POLLOUT | POLLWRNORM;
  return found & events;
}

Outcome<void> Datagram::shut_down(int) {
  std::unique_lock lock(mutex_);
  shut_ = true;
  return {};
}

void Datagram::close() {
  std::unique_lock lock(mutex_);
  shut_ = true;
  static_cast<void>(wait_until(lock, true, [this] {
    return std::ranges::all_of(ports_, [](const auto& port) { return port->all_sent(); });
  }));
}

Outcome<void> Datagram::name(sockaddr* address, socklen_t* length, bool peer) {
  std::unique_lock lock(mutex_);
  if (peer && connected_.empty()) return fail(ENOTCONN);
  const SocketAddress name = peer ? connected_ : name_of(udp_.get());
  copy_address(name.data(), address, length);
  return {};
}

Outcome<void> Datagram::set_option(int level, int option, const void* value, socklen_t length) {
  std::unique_lock lock(mutex_);
  if (level != SOL_RDMA) {
    if (::setsockopt(udp_.get(), level, option, value, length) != 0) return fail(errno);
    if (level != SOL_SOCKET || !ports_.empty()) return {};
    const auto size = integer_of(value, length);
    if (!size) return {};
    if (option == SO_RCVBUF) sizes_.receive_bytes = 2 * static_cast<std::uint32_t>(*size);
    if (option == SO_SNDBUF) sizes_.send_bytes = 2 * static_cast<std::uint32_t>(*size);
    return {};
  }
  const auto number = integer_of(value, length);
  if (!number) return fail(number.error());
  if (!ports_.empty()) return fail(EINVAL);
  const auto requests = static_cast<std::uint16_t>(std::clamp(*number, 0, 0xfffe));
  switch (option) {
    case RDMA_SQSIZE:
      sizes_.send_requests = requests;
      return {};
    case RDMA_RQSIZE:
      sizes_.receive_requests = requests;
      return {};
    case RDMA_INLINE:
      sizes_.inline_bytes = requests;
      return {};
    default:
      return unsupported(kUnknownOption);
  }
}

Outcome<void> Datagram::get_option(int level, int option, void* value, socklen_t* length) {
  std::unique_lock lock(mutex_);
  if (level != SOL_RDMA) {
    if (::getsockopt(udp_.get(), level, option, value, length) != 0) return fail(errno);
    return {};
  }
  switch (option) {
    case RDMA_SQSIZE:
      return give_integer(sizes_.send_requests, value, length);
    case RDMA_RQSIZE:
      return give_integer(sizes_.receive_requests, value, length);
    case RDMA_INLINE:
      return give_integer(sizes_.inline_bytes, value, length);
    default:
      return unsupported(kUnknownOption);
  }
}

Outcome<std::shared_ptr<Socket>> make_datagram(int domain) {
  auto datagram = Datagram::make(domain);
  if (!datagram) return fail(datagram.error());
  return std::shared_ptr<Socket>(std::move(*datagram));
}

}  // namespace verbatim::rsocket

// The entry points of rsocket(7), except rpoll and rselect: they map fds to sockets and failures to
// errno.

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <span>

#include "ulp/rsocket/private.h"
#include "ulp/rsocket/rsocket.h"
#include "ulp/rsocket/socket.h"

namespace verbatim::rsocket {
namespace {

template <typename Call>
auto call_on(int number, Call&& call) -> decltype(call(std::declval<Socket&>())) {
  const std::shared_ptr<Socket> socket = find(number);
  if (!socket) return fail(EBADF);
  return call(*socket);
}

int answer(const Outcome<void>& outcome) {
  if (outcome) return 0;
  errno = outcome.error();
  return -1;
}

ssize_t answer(const Outcome<std::size_t>& outcome) {
  if (outcome) return static_cast<ssize_t>(*outcome);
  errno = outcome.error();
  return -1;
}

ssize_t send(int number, const Message& message) {
  return answer(call_on(number, [&](Socket& socket) { return socket.send(message); }));
}
ssize_t receive(int number, const Message& message) {
  return answer(call_on(number, [&](Socket& socket) { return socket.receive(message); }));
}

int enter_new(Outcome<std::shared_ptr<Socket>> socket, int type) {
  if (!socket) return answer(Outcome<void>(fail(socket.error())));
  if ((type & SOCK_NONBLOCK) != 0) (*socket)->status_flags = O_NONBLOCK;
  const int number = (*socket)->number();
  enter(std::move(*socket));
  return number;
}

bool are_empty(const iovec* pieces, int count) {
  return std::ranges::all_of(std::span(pieces, static_cast<std::size_t>(count)),
                             [](const iovec& it) { return it.iov_len == 0; });
}

iovec piece(const void* bytes, std::size_t size) { return {const_cast<void*>(bytes), size}; }

}  // namespace
}  // namespace verbatim::rsocket

using namespace verbatim::rsocket;  // NOLINT: a file of entry points.

extern "C" {

int rsocket(int domain, int type, int protocol) {
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  const bool is_stream = kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
  const bool is_datagram = kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
  const bool is_ip = domain == AF_INET || domain == AF_INET6;
  // A datagram socket also sends over a UDP socket, which has no AF_IB addresses.
  if (!(is_stream && (is_ip || domain == AF_IB)) && !(is_datagram && is_ip)) {
    return answer(Outcome<void>(
        unsupported("there are streams and datagrams over IP, and streams over AF_IB")));
  }
  auto socket = is_stream ? make_stream(Protocol::rsocket) : make_datagram(domain);
  return enter_new(std::move(socket), type);
}

int rbind(int socket, const sockaddr* addr, socklen_t addrlen) {
  return answer(call_on(socket, [&](Socket& it) { return it.bind(addr, addrlen); }));
}

int rlisten(int socket, int backlog) {
  return answer(call_on(socket, [&](Socket& it) { return it.listen(backlog); }));
}

int raccept(int socket, sockaddr* addr, socklen_t* addrlen) {
  auto accepted = call_on(socket, [](Socket& it) { return it.accept(); });
  if (!accepted) {
    errno = accepted.error();
    return -1;
  }
  if (accepted->plain) {
    if (addr != nullptr) getpeername(accepted->plain.get(), addr, addrlen);
    return accepted->plain.release();
  }
  const int number = accepted->socket->number();
  // The peer's name is known even if the connection is not established yet.
  if (addr != nullptr) static_cast<void>(accepted->socket->name(addr, addrlen, true));
  enter(std::move(accepted->socket));
  return number;
}

int rconnect(int socket, const sockaddr* addr, socklen_t addrlen) {
  return answer(call_on(socket, [&](Socket& it) { return it.connect(addr, addrlen); }));
}

int rshutdown(int socket, int how) {
  return answer(call_on(socket, [&](Socket& it) { return it.shut_down(how); }));
}

int rclose(int socket) {
  const auto taken = take_out(socket);
  if (!taken) {
    errno = taken.error();
    return -1;
  }
  if (*taken) (*taken)->close();
  return 0;
}

ssize_t rrecv(int socket, void* buf, size_t len, int flags) {
  const iovec bytes = piece(buf, len);
  return receive(socket, {.pieces = {&bytes, 1}, .flags = flags});
}

ssize_t rrecvfrom(int socket, void* buf, size_t len, int flags, sockaddr* src_addr,
                  socklen_t* addrlen) {
  const iovec bytes = piece(buf, len);
  return receive(socket,
                 {.pieces = {&bytes, 1}, .flags = flags, .address = src_addr, .length = addrlen});
}

ssize_t rrecvmsg(int socket, msghdr* msg, int flags) {
  msg->msg_flags = 0;
  msg->msg_controllen = 0;
  return receive(socket, {.pieces = {msg->msg_iov, msg->msg_iovlen},
                          .flags = flags,
                          .address = static_cast<sockaddr*>(msg->msg_name),
                          .length = msg->msg_name == nullptr ? nullptr : &msg->msg_namelen});
}

// Unlike recv(2), they take nothing without waiting.

ssize_t rread(int socket, void* buf, size_t count) {
  return count == 0 ? 0 : rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const iovec* iov, int iovcnt) {
  if (are_empty(iov, iovcnt)) return 0;
  return receive(socket, {.pieces = {iov, static_cast<std::size_t>(iovcnt)}});
}

ssize_t rsend(int socket, const void* buf, size_t len, int flags) {
  const iovec bytes = piece(buf, len);
  return send(socket, {.pieces = {&bytes, 1}, .flags = flags});
}

ssize_t rsendto(int socket, const void* buf, size_t len, int flags, const sockaddr* dest_addr,
                socklen_t addrlen) {
  const iovec bytes = piece(buf, len);
  return send(socket, {.pieces = {&bytes, 1},
                       .flags = flags,
                       .address = const_cast<sockaddr*>(dest_addr),
                       .length = dest_addr == nullptr ? nullptr : &addrlen});
}

ssize_t rsendmsg(int socket, const msghdr* msg, int flags) {
  if (msg->msg_control != nullptr && msg->msg_controllen != 0) {
    return answer(Outcome<std::size_t>(unsupported("messages carry no control data")));
  }
  socklen_t length = msg->msg_namelen;
  return send(socket, {.pieces = {msg->msg_iov, msg->msg_iovlen},
                       .flags = flags,
                       .address = static_cast<sockaddr*>(msg->msg_name),
                       .length = msg->msg_name == nullptr ? nullptr : &length});
}

ssize_t rwrite(int socket, const void* buf, size_t count) { return rsend(socket, buf, count, 0); }

ssize_t rwritev(int socket, const iovec* iov, int iovcnt) {
  if (are_empty(iov, iovcnt)) return 0;
  return send(socket, {.pieces = {iov, static_cast<std::size_t>(iovcnt)}});
}

int rgetpeername(int socket, sockaddr* addr, socklen_t* addrlen) {
  return answer(call_on(socket, [&](Socket& it) { return it.name(addr, addrlen, true); }));
}

int rgetsockname(int socket, sockaddr* addr, socklen_t* addrlen) {
  return answer(call_on(socket, [&](Socket& it) { return it.name(addr, addrlen, false); }));
}

int rsetsockopt(int socket, int level, int optname, const void* optval, socklen_t optlen) {
  return answer(
      call_on(socket, [&](Socket& it) { return it.set_option(level, optname, optval, optlen); }));
}

int rgetsockopt(int socket, int level, int optname, void* optval, socklen_t* optlen) {
  return answer(
      call_on(socket, [&](Socket& it) { return it.get_option(level, optname, optval, optlen); }));
}

int rfcntl(int socket, int cmd, ...) {
  va_list arguments;
  va_start(arguments, cmd);
  const int argument = va_arg(arguments, int);
  va_end(arguments);
  const std::shared_ptr<Socket> it = find(socket);
  if (!it) {
    errno = EBADF;
    return -1;
  }
  switch (cmd) {
    case F_GETFL:
      return it->status_flags | O_RDWR;
    case F_SETFL:
      it->status_flags = argument & ~O_ACCMODE;
      return 0;
    case F_GETFD:
      return it->descriptor_flags;
    case F_SETFD:
      it->descriptor_flags = argument;
      return 0;
    case F_GETOWN:
      return it->owner;
    case F_SETOWN:
      it->owner = argument;
      return 0;
    default:
      return answer(Outcome<void>(unsupported("fcntl gets and sets flags and the owner alone")));
  }
}

int verbatim_sdp_socket(int type) { return enter_new(make_stream(Protocol::sdp), type); }

int verbatim_accompany(int socket, int listener) {
  verbatim::UniqueFd companion(listener);
  return answer(call_on(socket, [&](Socket& it) { return it.accompany(std::move(companion)); }));
}

int verbatim_rsource(int number, std::shared_ptr<verbatim::ulp::sockets::Source>* source) {
  *source = find(number);
  return *source ? 0 : answer(Outcome<void>(fail(EBADF)));
}

int verbatim_rnames(int number, const sockaddr_storage* local, const sockaddr_storage* peer) {
  const std::shared_ptr<Socket> socket = find(number);
  if (!socket) return answer(Outcome<void>(fail(EBADF)));
  socket->set_names(*local, *peer);
  return 0;
}

int verbatim_rport(int number, std::uint16_t port) {
  const std::shared_ptr<Socket> socket = find(number);
  if (!socket) return answer(Outcome<void>(fail(EBADF)));
  socket->set_port(port);
  return 0;
}

int verbatim_rpeer_port(int number) {
  const std::shared_ptr<Socket> socket = find(number);
  return socket ? socket->peer_port() : answer(Outcome<void>(fail(EBADF)));
}

int verbatim_ratmark(int number) {
  const std::shared_ptr<Socket> socket = find(number);
  return socket ? socket->is_at_mark() : answer(Outcome<void>(fail(EBADF)));
}

off_t riomap(int socket, void* buf, size_t len, int prot, int, off_t offset) {
  const auto mapped = call_on(socket, [&](Socket& it) { return it.map(buf, len, prot, offset); });
  if (mapped) return *mapped;
  errno = mapped.error();
  return -1;
}

int riounmap(int socket, void* buf, size_t len) {
  return answer(call_on(socket, [&](Socket& it) { return it.unmap(buf, len); }));
}

size_t riowrite(int socket, const void* buf, size_t count, off_t offset, int flags) {
  return static_cast<size_t>(answer(
      call_on(socket, [&](Socket& it) { return it.write_mapped(buf, count, offset, flags); })));
}

}  // extern "C"

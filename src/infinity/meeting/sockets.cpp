#include "infinity/meeting/sockets.h"

#include <cerrno>
#include <memory>
#include <string>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "infinity/failure.h"

namespace infinity::detail {

void Socket::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail(errno, "the other side has closed the TCP connection");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void Socket::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t received = recv(get(), bytes.data(), bytes.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      fail(ETIMEDOUT, "the other side of the TCP connection says nothing");
    if (received <= 0)
      fail(received < 0 ? errno : ECONNRESET,
           "the other side has closed the TCP connection before the queue pairs were connected");
    bytes = bytes.subspan(static_cast<std::size_t>(received));
  }
}

void Socket::limit(std::chrono::seconds patience) const {
  const timeval time{.tv_sec = patience.count(), .tv_usec = 0};
  setsockopt(get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

sockaddr_storage Socket::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(get(), reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

sockaddr_storage Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getpeername(get(), reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

namespace {

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

Socket connect_to(const char* host, std::uint16_t port) {
  const addrinfo hints{.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    refuse("QueuePairFactory::connectToRemoteHost: ", host,
           " has no address: ", code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  int last = EHOSTUNREACH;
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket || connect(socket.get(), to->ai_addr, to->ai_addrlen) != 0) {
      last = errno;
      continue;
    }
    set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    set(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    return socket;
  }
  fail(last, "QueuePairFactory::connectToRemoteHost: no TCP connection to ", host, ", port ", port,
       ": is the other program listening (bindToPort)?");
}

Socket listen_at(std::uint16_t port) {
  constexpr int kBacklog = 128;
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in6 six{
      .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
  const sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(port)};
  const auto listens = [&](const auto& address) {
    if (!socket) return false;
    set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
           listen(socket.get(), kBacklog) == 0;
  };
  if (socket) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (listens(six)) return socket;
  if (errno != EADDRINUSE && errno != EACCES) {  // The machine has no IPv6.
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (listens(four)) return socket;
  }
  fail(errno, "QueuePairFactory::bindToPort: TCP port ", port, " cannot be listened at");
}

Socket accept_from(int listener) {
  for (;;) {
    Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      set(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
      return socket;
    }
    if (errno != EINTR && errno != ECONNABORTED)
      fail(errno, "QueuePairFactory::acceptIncomingConnection: no TCP connection can be accepted");
  }
}

}  // namespace infinity::detail

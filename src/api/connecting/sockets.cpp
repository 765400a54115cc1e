#include "api/connecting/sockets.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/handles.h"

namespace verbatim::inline v1::detail {
namespace {

/// Succeeds when the socket is ready; fails if the time is over or poll fails.
Result<void> wait_for(Call call, int socket, short events, const Deadline& deadline) {
  for (;;) {
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    const int count = poll(&ready, 1, deadline.left_ms());
    if (count > 0) return {};
    if (count == 0) {
      return Failure{.call = call,
                     .status = Status::timed_out,
                     .detail = "the other side did not answer in time"};
    }
    if (errno != EINTR) return refused(call, errno, "the socket cannot be waited for");
  }
}

Failure closed(Call call) {
  return {.call = call,
          .status = Status::disconnected,
          .detail = "the other side closed the TCP connection"};
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

int Deadline::left_ms() const {
  if (is_endless_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT32_MAX));
}

Result<Addresses> look_up(Call call, const std::string& host, std::uint16_t port, bool is_passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = is_passive ? AI_PASSIVE : 0;
  if (host.empty() && is_passive) hints.ai_family = AF_INET6;  // Also accepts IPv4.
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                               &hints, &found);
  if (code != 0)
    return refused(call, code == EAI_SYSTEM ? errno : EHOSTUNREACH, gai_strerror(code));
  return Addresses(found);
}

Result<Socket> connect_tcp(Call call, const std::string& host, std::uint16_t port,
                           const std::string& source, const Deadline& deadline) {
  auto addresses = look_up(call, host, port, false);
  if (!addresses) return addresses.error();
  Failure last = refused(call, EHOSTUNREACH, "the host has no address");
  for (const addrinfo* to = addresses->get(); to != nullptr; to = to->ai_next) {
    Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return refused(call, errno, "no socket");
    if (!source.empty()) {
      auto from = look_up(call, source, 0, true);
      if (!from) return from.error();
      if (bind(socket.get(), (*from)->ai_addr, (*from)->ai_addrlen) != 0) {
        return refused(call, errno, "the source address is not this machine's");
      }
    }
    if (connect(socket.get(), to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
      last = refused(call, errno, "the TCP connection is refused");
      continue;
    }
    if (auto ready = wait_for(call, socket.get(), POLLOUT, deadline); !ready) return ready.error();
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return socket;
    last = refused(call, error, "the TCP connection is refused");
  }
  return last;
}

Result<Socket> listen_tcp(Call call, const std::string& address, std::uint16_t port, int backlog) {
  auto addresses = look_up(call, address, port, true);
  if (!addresses) return addresses.error();
  const addrinfo& at = **addresses;
  Socket socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return refused(call, errno, "no socket");
  const int on = 1;
  const int off = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6)
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(socket.get(), at.ai_addr, at.ai_addrlen) != 0) {
    return refused(call, errno,
                   "the address is not this machine's, or another program has the port");
  }
  if (listen(socket.get(), backlog) != 0)
    return refused(call, errno, "the port cannot be listened at");
  return socket;
}

Result<Socket> accept_tcp(Call call, int listener, const Deadline& deadline) {
  for (;;) {
    if (auto ready = wait_for(call, listener, POLLIN, deadline); !ready) return ready.error();
    Socket accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) return accepted;
    // Another thread was first, or the peer has closed.
    if (!would_block() && errno != ECONNABORTED)
      return refused(call, errno, "no connection can be accepted");
  }
}

Result<void> send_all(Call call, int socket, std::span<const std::byte> bytes,
                      const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (!would_block()) {
      return closed(call);
    } else if (auto ready = wait_for(call, socket, POLLOUT, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

Result<void> receive_all(Call call, int socket, std::span<std::byte> bytes,
                         const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t received = recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    } else if (received == 0 || !would_block()) {
      return closed(call);
    } else if (auto ready = wait_for(call, socket, POLLIN, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

}  // namespace verbatim::inline v1::detail

#include "dropin/rspreload/pending.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rdmacm/locks.h"
#include "dropin/rspreload/carriers.h"
#include "dropin/rspreload/environment.h"
#include "dropin/rspreload/inherited.h"
#include "ulp/rsocket/private.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

constexpr int kRetryMs = 5;
/// Bounds each wait for a peer: another thread may have made the fd an rsocket meanwhile.
constexpr int kLookAgainMs = 100;

constexpr std::uint32_t kMagic = 0x76627273;

/// Converts an IPv4-mapped address to IPv4, as adapters need it.
sockaddr_storage unmapped(const sockaddr_storage& address) {
  sockaddr_in6 mapped{};
  std::memcpy(&mapped, &address, sizeof mapped);
  if (address.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&mapped.sin6_addr)) return address;
  sockaddr_in plain{};
  plain.sin_family = AF_INET;
  plain.sin_port = mapped.sin6_port;
  std::memcpy(&plain.sin_addr, mapped.sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
  sockaddr_storage result{};
  std::memcpy(&result, &plain, sizeof plain);
  return result;
}

sockaddr* as_sockaddr(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }

socklen_t length_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

/// What the accepting side writes. rdma-core's library writes and looks at the zeroes alone.
struct Invitation {
  std::uint32_t zeroes = 0;
  std::uint32_t magic = kMagic;
  std::uint16_t port = 0;  // In network order.
  std::uint16_t reserved = 0;
};

std::uint16_t port_of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in*>(&address)->sin_port;  // At the same place in IPv6's.
}
void set_port(sockaddr_storage& address, std::uint16_t port) {
  reinterpret_cast<sockaddr_in*>(&address)->sin_port = port;
}

short state_of(int fd) {
  pollfd state{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) > 0 ? state.revents : short{0};
}

/// Resets the connection, which both programs see.
Kind abandon(int fd) {
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  [[maybe_unused]] const int done = connect(fd, &nobody, sizeof nobody);
  return Kind::other;
}

/// Replaces the TCP socket by the rsocket.
Kind take_over(int fd, int number) {
  rfcntl(number, F_SETFL, fcntl(fd, F_GETFL));
  int no_delay = 0;
  socklen_t length = sizeof no_delay;
  if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &length) == 0 && no_delay != 0) {
    rsetsockopt(number, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  }
  sockaddr_storage local{}, peer{};
  socklen_t local_length = sizeof local, peer_length = sizeof peer;
  if (getsockname(fd, as_sockaddr(local), &local_length) == 0 &&
      getpeername(fd, as_sockaddr(peer), &peer_length) == 0) {
    verbatim_rnames(number, &local, &peer);
  }
  const std::vector<int> twins = twins_of(fd);
  // Other processes may still have the TCP socket.
  shutdown(fd, SHUT_RDWR);
  for (const int twin : twins) {
    if (verbatim_rdup3(number, twin, 0) == twin) set_kind(twin, Kind::rsocket);
  }
  const int flags = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
  const bool done = verbatim_rdup3(number, fd, flags) == fd;
  rclose(number);
  return done ? Kind::rsocket : Kind::other;
}

/// Starts to connect an rsocket, as the invitation says. Returns it, or -1.
int connect_to(int fd, const Invitation& invitation) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, as_sockaddr(peer), &length) != 0) return -1;
  peer = unmapped(peer);
  if (invitation.magic == kMagic) set_port(peer, invitation.port);
  const int number = new_stream(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
  if (number < 0 || rconnect(number, as_sockaddr(peer), length_of(peer)) == 0 ||
      errno == EINPROGRESS) {
    return number;
  }
  rclose(number);
  return -1;
}

/// Takes over the rsocket if it is connected.
Kind finish_active(int fd, int number) {
  pollfd state{.fd = number, .events = POLLOUT, .revents = 0};
  if (rpoll(&state, 1, 0) <= 0) return Kind::active;
  set_pending_listener(fd, {});
  if (state.revents == POLLOUT) return take_over(fd, number);
  rclose(number);
  return abandon(fd);
}

Kind advance_active(int fd, Kind kind) {
  if (const int number = pending_listener_of(fd).listener; number >= 0) {
    return finish_active(fd, number);
  }
  const short state = state_of(fd);
  if (state == 0) return kind;
  // It may have been refused; the program's own call then reports it.
  if ((state & (POLLERR | POLLHUP)) != 0) return Kind::other;
  Invitation message{.magic = 0};
  const ssize_t bytes = recv(fd, &message, sizeof message, MSG_PEEK | MSG_DONTWAIT);
  if (bytes < static_cast<ssize_t>(sizeof message.zeroes) || message.zeroes != 0) {
    return Kind::other;
  }
  if (bytes < static_cast<ssize_t>(sizeof message)) message.magic = 0;
  const int number = connect_to(fd, message);
  if (number < 0) return abandon(fd);
  set_pending_listener(fd, {.listener = number});
  return finish_active(fd, number);
}

/// Returns a lock, which one process at a time can have for the address at which it listens: others
/// wait for it without asking the adapter. It ends with the process. EADDRINUSE.
int lock_address(const sockaddr_storage& address) {
  std::string name = "rspreload ";
  constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < length_of(address); ++i) {
    const auto byte = reinterpret_cast<const std::uint8_t*>(&address)[i];
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  const int lock = verbatim_take_lock(name.c_str());
  if (lock < 0 && errno == EWOULDBLOCK) errno = EADDRINUSE;
  return lock;
}

/// Returns an rsocket that listens there, or -1.
int listen_at(sockaddr_storage& local) {
  const int listener = new_stream(local.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
  if (listener < 0) return -1;
  if (rbind(listener, as_sockaddr(local), length_of(local)) == 0 && rlisten(listener, 1) == 0) {
    return listener;
  }
  rclose(listener);
  return -1;
}

/// Listens at a port of the connection's own; and at its TCP port, if no other connection does.
PendingListener listen_for(int fd) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (getsockname(fd, as_sockaddr(local), &length) != 0) return {};
  local = unmapped(local);
  PendingListener own{.lock = lock_address(local)};
  if (own.lock >= 0) own.beside = listen_at(local);
  set_port(local, 0);
  own.listener = listen_at(local);
  return own;
}

/// Starts to listen, and tells the peer where.
Kind invite(int fd) {
  if (state_of(fd) != 0) return Kind::other;  // It sends data without the zeroes, or has closed.
  const PendingListener own = listen_for(fd);
  set_pending_listener(fd, own);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  const bool listens =
      own.listener >= 0 && rgetsockname(own.listener, as_sockaddr(local), &length) == 0;
  const Invitation message{.port = port_of(local)};
  if (listens &&
      send(fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof message) {
    return Kind::passive;
  }
  stop_listening(fd);
  return abandon(fd);
}

/// The connection that has come, or -1.
int accept_from(const PendingListener& own) {
  const int number = raccept(own.listener, nullptr, nullptr);
  return number >= 0 || own.beside < 0 ? number : raccept(own.beside, nullptr, nullptr);
}

/// Accepts the connection of a peer that has ended its TCP connection: it may have connected before
/// that.
int accept_late(const PendingListener& own, int late_ms) {
  std::array<pollfd, 2> coming{{{.fd = own.listener, .events = POLLIN, .revents = 0},
                                {.fd = own.beside, .events = POLLIN, .revents = 0}}};
  rpoll(coming.data(), coming.size(), late_ms);
  return accept_from(own);
}

Kind advance_passive(int fd, int late_ms) {
  if (pending_listener_of(fd).listener < 0) {
    const Kind kind = invite(fd);
    if (kind != Kind::passive) return kind;
  }
  int number = accept_from(pending_listener_of(fd));
  const short state = number < 0 ? state_of(fd) : short{0};
  if (number < 0 && state == 0) return Kind::passive;
  const bool has_left = (state & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  if (number < 0 && has_left && late_ms == 0) return Kind::passive;
  if (number < 0 && has_left) number = accept_late(pending_listener_of(fd), late_ms);
  stop_listening(fd);
  if (number >= 0) return take_over(fd, number);
  if (!has_left) return abandon(fd);  // It sends data: its program does not use rsockets.
  // The peer has closed with our zeroes unread, which the kernel reports as a reset. The program
  // must see an end instead.
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return Kind::other;
}

bool settle_or(int fd, bool may_wait) {
  while (!advance(fd)) {
    if (!may_wait) {
      errno = EAGAIN;
      return false;
    }
    std::vector<pollfd> fds;
    const int limit = watch(fd, fds);
    const Inside mark;
    if (rpoll(fds.data(), fds.size(), limit) < 0) return false;
  }
  return true;
}

}  // namespace

bool settle_pending(int fd, int flags) {
  const int status = within([&] { return fcntl(fd, F_GETFL); });
  return settle_or(fd, (flags & MSG_DONTWAIT) == 0 && (status & O_NONBLOCK) == 0);
}

bool settle_at_any_rate(int fd) { return settle_or(fd, true); }

bool advance(int fd, int late_ms) {
  const Kind kind = kind_of(fd);
  if (!is_pending(kind)) return true;
  if (kind == Kind::converting || !replace_kind(fd, kind, Kind::converting)) return false;
  const Inside mark;
  restore_environment();
  const Kind now = kind == Kind::passive ? advance_passive(fd, late_ms) : advance_active(fd, kind);
  replace_kind(fd, Kind::converting, now);
  return now == Kind::rsocket || now == Kind::other;
}

int watch(int fd, std::vector<pollfd>& fds) {
  const Kind kind = kind_of(fd);
  if (!is_pending(kind)) return 0;
  if (kind == Kind::converting) return kRetryMs;
  const PendingListener own = pending_listener_of(fd);
  const bool connects = kind != Kind::passive && own.listener >= 0;
  if (connects) fds.push_back({.fd = own.listener, .events = POLLOUT, .revents = 0});
  if (!connects) fds.push_back({.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0});
  if (kind != Kind::passive) return kLookAgainMs;
  for (const int listener : {own.listener, own.beside}) {
    if (listener >= 0) fds.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  }
  return kLookAgainMs;
}

void stop_listening(int fd) {
  const PendingListener own = pending_listener_of(fd);
  if (own.listener < 0 && own.lock < 0) return;
  set_pending_listener(fd, {});
  const Inside mark;
  if (own.listener >= 0) rclose(own.listener);
  if (own.beside >= 0) rclose(own.beside);
  if (own.lock >= 0) close(own.lock);
}

}  // namespace verbatim::rspreload

#include "dropin/rspreload/pending/pending.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rdmacm/locks.h"
#include "dropin/rspreload/carriers.h"
#include "dropin/rspreload/environment.h"
#include "dropin/rspreload/heirs/heir.h"
#include "dropin/rspreload/inherited.h"
#include "dropin/rspreload/pending/gate.h"
#include "dropin/rspreload/pending/sign.h"
#include "ulp/rsocket/private.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

using ulp::sdp::Carrier;
using ulp::sdp::Role;

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
  std::uint16_t port = 0;  // In network order. 0: both remain TCP's.
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

Names names_of(int fd) {
  Names names;
  socklen_t local_length = sizeof names.local, peer_length = sizeof names.peer;
  getsockname(fd, as_sockaddr(names.local), &local_length);
  getpeername(fd, as_sockaddr(names.peer), &peer_length);
  return names;
}

/// Replaces the TCP socket by the rsocket.
Kind take_over(int fd, int number) {
  rfcntl(number, F_SETFL, fcntl(fd, F_GETFL));
  copy_options(fd, number);
  const std::vector<int> twins = twins_of(fd);
  // Other processes may still have the TCP socket.
  shutdown(fd, SHUT_RDWR);
  for (const int twin : twins) {
    leave_twins(twin);
    const int flags = (fcntl(twin, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
    if (verbatim_rdup3(number, twin, flags) == twin) set_kind(twin, Kind::rsocket);
  }
  const int flags = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
  const bool done = verbatim_rdup3(number, fd, flags) == fd;
  rclose(number);
  return done ? Kind::rsocket : Kind::other;
}

/// Starts to connect an rsocket, as the invitation says. Returns it, or -1.
int connect_to(int fd, const Invitation& invitation) {
  const Names names = names_of(fd);
  sockaddr_storage peer = unmapped(names.peer);
  if (invitation.magic == kMagic) set_port(peer, invitation.port);
  const int number = new_stream(carrier_of_connected(Role::client, fd), peer.ss_family,
                                SOCK_STREAM | SOCK_NONBLOCK);
  if (number < 0) return -1;
  verbatim_rport(number, ntohs(port_of(names.local)));
  verbatim_rnames(number, &names.local, &names.peer);
  if (rconnect(number, as_sockaddr(peer), length_of(peer)) == 0 || errno == EINPROGRESS) {
    return number;
  }
  rclose(number);
  return -1;
}

/// Tells the accepting side that a connection is there, before TCP's ends: so it waits for as long
/// as its thread needs. The invitation is read, or the end would be a reset.
void announce(int fd) {
  Invitation ignored;
  [[maybe_unused]] const ssize_t read = recv(fd, &ignored, sizeof ignored, MSG_DONTWAIT);
  send(fd, &kMagic, sizeof kMagic, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool is_announced(int fd) {
  std::uint32_t word = 0;
  const ssize_t bytes = recv(fd, &word, sizeof word, MSG_PEEK | MSG_DONTWAIT);
  return bytes == sizeof word && word == kMagic;
}

/// Takes over the rsocket if it is connected.
Kind finish_active(int fd, int number) {
  pollfd state{.fd = number, .events = POLLOUT, .revents = 0};
  if (rpoll(&state, 1, 0) <= 0) return Kind::active;
  set_awaited(fd, {});
  if (state.revents == POLLOUT) {
    announce(fd);
    return take_over(fd, number);
  }
  rclose(number);
  return abandon(fd);
}

Kind advance_active(int fd, Kind kind) {
  if (const int number = awaited_of(fd).arrival; number >= 0) {
    return finish_active(fd, number);
  }
  // A peer without this library: TCP if the rules allow it. Without rules it may be rdma-core's.
  if (kind == Kind::active && has_rules() && !goes_to_ours(fd)) {
    if (carrier_of_connected(Role::client, fd) != Carrier::both) return abandon(fd);
    note_tcp(fd);
    return Kind::other;
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
  if (message.magic == kMagic && message.port == 0) {
    const ssize_t taken = recv(fd, &message, sizeof message, MSG_DONTWAIT);
    return taken == bytes ? Kind::other : abandon(fd);
  }
  const int number = connect_to(fd, message);
  if (number < 0) return abandon(fd);
  set_awaited(fd, {.arrival = number});
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
  const int listener = new_stream(Carrier::rsocket, local.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
  if (listener < 0) return -1;
  if (rbind(listener, as_sockaddr(local), length_of(local)) == 0 && rlisten(listener, 1) == 0) {
    return listener;
  }
  rclose(listener);
  return -1;
}

bool send_to(int fd, const Invitation& message) {
  return send(fd, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof message;
}

/// Starts to listen, and tells the peer where. rdma-core's library comes to the TCP socket's port,
/// if no other connection waits there.
Kind invite(int fd) {
  const Carrier carrier = carrier_of_connected(Role::server, fd);
  const bool is_ours = comes_from_ours(fd);
  if (!is_ours && carrier == Carrier::both) return Kind::other;
  if (!is_ours && carrier == Carrier::sdp) return abandon(fd);
  if (state_of(fd) != 0) return Kind::other;  // It sends data without the zeroes, or has closed.
  const Names names = names_of(fd);
  sockaddr_storage local = unmapped(names.local);
  const Expected expected = expect(carrier, names, local);
  // The node has no such address, as that of loopback, or no room for a listener.
  if (expected.arrival < 0 && is_ours && carrier != Carrier::sdp) {
    return send_to(fd, {}) ? Kind::other : abandon(fd);
  }
  Awaited own{.arrival = expected.arrival};
  if (!is_ours) own.lock = lock_address(local);
  if (own.lock >= 0) own.beside = listen_at(local);
  set_awaited(fd, own);
  if (own.arrival >= 0 && send_to(fd, {.port = expected.port})) return Kind::passive;
  stop_listening(fd);
  return abandon(fd);
}

/// The connection that has come, or -1.
int accept_from(const Awaited& own) {
  int number = take_arrival(own.arrival);
  if (number >= 0 || own.beside < 0) return number;
  number = raccept(own.beside, nullptr, nullptr);
  if (number >= 0) name_as_expected(own.arrival, number);
  return number;
}

/// Accepts the connection of a peer that has ended its TCP connection: it may have connected before
/// that.
int accept_late(const Awaited& own, int late_ms) {
  std::array<pollfd, 2> coming{{{.fd = own.arrival, .events = POLLIN, .revents = 0},
                                {.fd = own.beside, .events = POLLIN, .revents = 0}}};
  rpoll(coming.data(), coming.size(), late_ms);
  return accept_from(own);
}

Kind advance_passive(int fd, int late_ms) {
  if (awaited_of(fd).arrival < 0) {
    const Kind kind = invite(fd);
    if (kind != Kind::passive) return kind;
  }
  int number = accept_from(awaited_of(fd));
  const short state = number < 0 ? state_of(fd) : short{0};
  if (number < 0 && state == 0) return Kind::passive;
  if (number < 0 && is_announced(fd)) return Kind::passive;
  const bool has_left = (state & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  if (number < 0 && has_left && late_ms == 0) return Kind::passive;
  if (number < 0 && has_left) number = accept_late(awaited_of(fd), late_ms);
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

bool is_connected(int fd) {
  const Inside mark;
  pollfd state{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&state, 1, 0) > 0 && state.revents == POLLOUT;
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
  if (kind_of(fd) == Kind::connecting && is_connected(fd)) become_active(fd);
  const int status = within([&] { return fcntl(fd, F_GETFL); });
  return settle_or(fd, (flags & MSG_DONTWAIT) == 0 && (status & O_NONBLOCK) == 0);
}

bool settle_at_any_rate(int fd) { return settle_or(fd, true); }

bool advance(int number, int late_ms) {
  const int fd = first_of(number);
  const Kind kind = kind_of(fd);
  if (!is_pending(kind)) return true;
  if (kind == Kind::inherited) return adopt(fd), true;
  if (kind == Kind::converting || !replace_kind(fd, kind, Kind::converting)) return false;
  const Inside mark;
  restore_environment();
  const Kind now = kind == Kind::passive ? advance_passive(fd, late_ms) : advance_active(fd, kind);
  if (now == Kind::other) {
    for (const int twin : twins_of(fd)) leave_twins(twin), set_kind(twin, Kind::other);
  }
  replace_kind(fd, Kind::converting, now);
  return now == Kind::rsocket || now == Kind::other;
}

int watch(int number, std::vector<pollfd>& fds) {
  const int fd = first_of(number);
  const Kind kind = kind_of(fd);
  if (!is_pending(kind)) return 0;
  if (kind == Kind::converting) return kRetryMs;
  const Awaited own = awaited_of(fd);
  const bool connects = kind != Kind::passive && own.arrival >= 0;
  if (connects) fds.push_back({.fd = own.arrival, .events = POLLOUT, .revents = 0});
  const bool is_coming = !connects && within([fd] { return is_announced(fd); });
  if (!connects && !is_coming)
    fds.push_back({.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0});
  if (kind != Kind::passive) return kLookAgainMs;
  for (const int coming : {own.arrival, own.beside}) {
    if (coming >= 0) fds.push_back({.fd = coming, .events = POLLIN, .revents = 0});
  }
  return kLookAgainMs;
}

void stop_listening(int fd) {
  const Awaited own = awaited_of(fd);
  if (own.arrival < 0 && own.lock < 0) return;
  set_awaited(fd, {});
  const Inside mark;
  if (own.arrival >= 0 && !forget_arrival(own.arrival)) rclose(own.arrival);
  if (own.beside >= 0) rclose(own.beside);
  if (own.lock >= 0) close(own.lock);
}

}  // namespace verbatim::rspreload

#include "dropin/rspreload/carriers.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "base/log.h"
#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/own_numbers.h"
#include "ulp/rsocket/private.h"
#include "ulp/sdp/rules.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

using ulp::sdp::Carrier;
using ulp::sdp::Role;
using ulp::sdp::Rules;

/// How long SDP is tried before TCP.
constexpr int kTryMs = 2000;
constexpr int kDecisions = 7;  // The level of lines on which carrier a socket has.

Rules read_rules() {
  const char* const name = std::getenv("LIBSDP_CONFIG_FILE");
  if (name == nullptr || *name == '\0') return {};
  std::ifstream file(name);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    log(LogLevel::error, "SDP: {}: {}: sockets are TCP's or SDP's without rules", name,
        std::strerror(errno));
    return {};
  }
  auto rules = Rules::parse(text);
  if (rules) return std::move(*rules);
  log(LogLevel::error, "SDP: {}: {}: all rules are ignored", name, rules.error().text);
  return {};
}

/// Never destroyed: threads may use them while the process exits.
const Rules& rules() {
  static const Rules* const rules = new Rules(read_rules());
  return *rules;
}

Carrier carrier_of(Role role, const SocketAddress& address) {
  const Carrier carrier = rules().match(role, program_invocation_short_name, address);
  if (rules().log_level() <= kDecisions) {
    log_line(LogLevel::warn,
             fmt::format("SDP: {} {}: {}", role == Role::server ? "listen" : "connect", address,
                         name_of(carrier)));
  }
  return carrier;
}

/// Once a process, since nobody else says why a program is no faster.
void warn_of_tcp(const SocketAddress& address, int error) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  log(LogLevel::warn, "SDP: {} has no SDP ({}): TCP is used there", address, std::strerror(error));
}

/// IPv4-mapped addresses as IPv4, as adapters need them.
SocketAddress unmapped(const SocketAddress& address) {
  const auto ip = address.ipv6_bytes();
  sockaddr_in6 name{};
  std::memcpy(&name.sin6_addr, ip.data(), ip.size());
  if (!address.is_ipv6() || !IN6_IS_ADDR_V4MAPPED(&name.sin6_addr)) return address;
  return SocketAddress::ipv4({ip[12], ip[13], ip[14], ip[15]}, address.port());
}

/// The descriptor becomes one of the new socket.
int take_over(int fd, int number) {
  const int flags = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
  const int done = verbatim_rdup3(number, fd, flags);
  const int error = errno;
  rclose(number);
  set_kind(fd, done == fd ? Kind::rsocket : Kind::other);
  errno = error;
  return done == fd ? 0 : -1;
}

int fail_with(int error, int number = -1) {
  if (number >= 0) rclose(number);
  errno = error;
  return -1;
}

/// Waits for the connection, but not for ever: who has no SDP may not answer. Returns an errno.
int try_connect(int number, const SocketAddress& address) {
  rfcntl(number, F_SETFL, O_NONBLOCK);
  if (rconnect(number, address.data(), address.size()) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd connected{.fd = number, .events = POLLOUT, .revents = 0};
  if (rpoll(&connected, 1, kTryMs) == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  rgetsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

int connect_as_tcp(int fd, const sockaddr* address, socklen_t length) {
  set_kind(fd, Kind::other);
  return connect(fd, address, length);
}

/// What counts for binding.
void copy_reuse(int from, int to) {
  int value = 0;
  socklen_t length = sizeof value;
  getsockopt(from, SOL_SOCKET, SO_REUSEADDR, &value, &length);
  rsetsockopt(to, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value);
  if (getsockopt(from, IPPROTO_IPV6, IPV6_V6ONLY, &value, &length) != 0) return;
  rsetsockopt(to, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value);
}

/// The program's own address, if it has bound one.
bool bind_as(int fd, int number) {
  copy_reuse(fd, number);
  const auto local = SocketAddress::of_socket(fd);
  if (!local || local->port() == 0) return true;
  const SocketAddress own = unmapped(*local);
  return rbind(number, own.data(), own.size()) == 0;
}

}  // namespace

void copy_options(int from, int to) {
  struct Option {
    int level;
    int name;
  };
  constexpr std::array kOptions = {
      Option{SOL_SOCKET, SO_KEEPALIVE},  Option{SOL_SOCKET, SO_OOBINLINE},
      Option{SOL_SOCKET, SO_LINGER},     Option{SOL_SOCKET, SO_RCVTIMEO},
      Option{SOL_SOCKET, SO_SNDTIMEO},   Option{IPPROTO_TCP, TCP_NODELAY},
      Option{IPPROTO_TCP, TCP_KEEPIDLE}, Option{IPPROTO_TCP, TCP_KEEPINTVL},
      Option{IPPROTO_TCP, TCP_KEEPCNT}};
  for (const auto& [level, name] : kOptions) {
    std::array<std::byte, sizeof(timeval)> value{};
    socklen_t length = value.size();
    if (getsockopt(from, level, name, value.data(), &length) != 0) continue;
    rsetsockopt(to, level, name, value.data(), length);
  }
}

bool has_rules() {
  static const bool is_set = [] {
    const char* const value = std::getenv("VERBATIM_SDP");
    return value != nullptr && std::strcmp(value, "on") == 0;
  }();
  return is_set;
}

int new_stream(Carrier carrier, int family, int type) {
  return carrier == Carrier::rsocket ? rsocket(family, type, 0) : verbatim_sdp_socket(type);
}

Carrier carrier_of_connected(Role role, int fd) {
  if (!has_rules()) return Carrier::rsocket;
  const Inside mark;
  const auto place =
      role == Role::server ? SocketAddress::of_socket(fd) : SocketAddress::of_peer(fd);
  return place ? rules().match(role, program_invocation_short_name, *place) : Carrier::tcp;
}

void note_tcp(int fd) {
  const Inside mark;
  if (const auto peer = SocketAddress::of_peer(fd)) warn_of_tcp(unmapped(*peer), ECONNREFUSED);
}

bool listens_as_tcp(int fd) {
  const Inside mark;
  const auto local = has_rules() ? SocketAddress::of_socket(fd) : refuse(EINVAL, "");
  return local && carrier_of(Role::server, *local) == Carrier::tcp;
}

bool connects_as_tcp(const sockaddr* address, socklen_t length) {
  const Inside mark;
  const auto peer = has_rules() ? SocketAddress::from(address, length) : refuse(EINVAL, "");
  return peer && carrier_of(Role::client, *peer) == Carrier::tcp;
}

int connect_by_rules(int fd, const sockaddr* address, socklen_t length) {
  const Inside mark;
  const auto named = SocketAddress::from(address, length);
  if (!named) return connect_as_tcp(fd, address, length);
  const SocketAddress peer = unmapped(*named);
  const Carrier carrier = carrier_of(Role::client, peer);
  if (carrier == Carrier::tcp) return connect_as_tcp(fd, address, length);
  const int number = new_stream(carrier, peer.family(), SOCK_STREAM);
  if (number >= 0) copy_options(fd, number);
  int error = number < 0 || !bind_as(fd, number) ? errno : 0;
  if (carrier == Carrier::both) {
    if (error == 0) error = try_connect(number, peer);
    if (error == 0) {
      rfcntl(number, F_SETFL, fcntl(fd, F_GETFL));
      return take_over(fd, number);
    }
    if (number >= 0) rclose(number);
    warn_of_tcp(peer, error);
    return connect_as_tcp(fd, address, length);
  }
  if (error != 0) return fail_with(error, number);
  rfcntl(number, F_SETFL, fcntl(fd, F_GETFL));
  if (rconnect(number, peer.data(), peer.size()) == 0) return take_over(fd, number);
  if (errno != EINPROGRESS) return fail_with(errno, number);
  return take_over(fd, number) == 0 ? fail_with(EINPROGRESS) : -1;
}

int listen_by_rules(int fd, int backlog) {
  const Inside mark;
  auto local = SocketAddress::of_socket(fd);
  const Carrier carrier = local ? carrier_of(Role::server, *local) : Carrier::tcp;
  const bool has_tcp = carrier == Carrier::tcp || carrier == Carrier::both;
  if (has_tcp && listen(fd, backlog) != 0) return -1;
  if (has_tcp) local = SocketAddress::of_socket(fd);  // The kernel may have chosen the port.
  if (!local || carrier == Carrier::tcp) return set_kind(fd, Kind::other), 0;
  const SocketAddress own = unmapped(*local);
  const int number = new_stream(carrier, own.family(), SOCK_STREAM);
  if (number >= 0) copy_options(fd, number);
  if (number >= 0) copy_reuse(fd, number);
  if (number < 0 || rbind(number, own.data(), own.size()) != 0 || rlisten(number, backlog) != 0) {
    const int error = errno;
    if (carrier != Carrier::both) return fail_with(error, number);
    if (number >= 0) rclose(number);
    warn_of_tcp(own, error);
    set_kind(fd, Kind::other);
    return 0;
  }
  rfcntl(number, F_SETFL, fcntl(fd, F_GETFL));
  if (carrier == Carrier::both) verbatim_accompany(number, with_high_number(dup(fd)));
  return take_over(fd, number);
}

}  // namespace verbatim::rspreload

// socket, bind, connect, and names.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <sys/socket.h>

#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/next.h"
#include "dropin/rdspreload/sockets.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

int fail(int error) {
  errno = error;
  return -1;
}

bool is_any(const local::Address& address) {
  if (address.any.sa_family == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&address.ipv6.sin6_addr);
  return address.ipv4.sin_addr.s_addr == INADDR_ANY;
}

bool is_for_many(const local::Address& address) {
  if (address.any.sa_family == AF_INET6) return IN6_IS_ADDR_MULTICAST(&address.ipv6.sin6_addr);
  const in_addr_t value = ntohl(address.ipv4.sin_addr.s_addr);
  return value == INADDR_BROADCAST || IN_MULTICAST(value);
}

/// As the kernel, for bind(2) and connect(2).
bool to_one(const sockaddr* from, socklen_t length, local::Address& to, int if_not) {
  if (!local::to_address(from, length, to)) return false;
  if (!is_any(to) && !is_for_many(to)) return true;
  errno = if_not;
  return false;
}

}  // namespace
}  // namespace verbatim::rdspreload

using namespace verbatim::rdspreload;  // NOLINT: a file of entry points.
namespace local = verbatim::ulp::rds::local;

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT int socket(int domain, int type, int protocol) {
  static auto* const plain = VERBATIM_NEXT(socket);
  if (domain != local::kFamily || broker_path().empty()) return plain(domain, type, protocol);
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_SEQPACKET || protocol != 0)
    return fail(ESOCKTNOSUPPORT);
  const int fd = local::open_socket(broker_path(), type);
  if (fd < 0 && errno == EPROTONOSUPPORT) {
    std::fprintf(stderr, "verbatim: no RDS broker at %s: start one with 'verbatim rds up'\n",
                 broker_path().c_str());
  }
  if (fd < 0) return -1;
  if (set_known(fd, kIsRds)) return fd;
  local::calls().close(fd);
  return fail(EMFILE);
}

EXPORT int bind(int fd, const sockaddr* address, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(bind);
  if (!is_rds(fd)) return plain(fd, address, length);
  local::Head question{.ask = local::Ask::bind};
  local::Answer answer;
  if (!to_one(address, length, question.address, EINVAL)) return -1;
  if (local::ask(fd, question, nullptr, answer) < 0) return -1;
  SocketUse socket(fd);
  if (!socket) return -1;
  socket->own = answer.address;
  add_known(fd, kIsBound);
  return 0;
}

EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(connect);
  if (!is_rds(fd)) return plain(fd, address, length);
  local::Head question{.ask = local::Ask::connect};
  local::Answer answer;
  const bool is_nowhere = length >= sizeof address->sa_family && address->sa_family == AF_UNSPEC;
  if (!is_nowhere && !to_one(address, length, question.address, EDESTADDRREQ)) return -1;
  if (local::ask(fd, question, nullptr, answer) < 0) return -1;
  if (is_nowhere) {
    set_known(fd, known_of(fd) & static_cast<std::uint8_t>(~kIsConnected));
  } else {
    add_known(fd, kIsConnected);
  }
  return 0;
}

EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockname);
  if (!is_rds(fd)) return plain(fd, address, length);
  local::Answer answer;
  if (local::ask(fd, local::Ask::own_name, answer) < 0) return -1;
  local::copy_name(answer.address, address, length);
  return 0;
}

EXPORT int getpeername(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getpeername);
  if (!is_rds(fd)) return plain(fd, address, length);
  local::Answer answer;
  if (local::ask(fd, local::Ask::peer_name, answer) < 0) return -1;
  local::copy_name(answer.address, address, length);
  return 0;
}

EXPORT int listen(int fd, int backlog) {
  static auto* const plain = VERBATIM_NEXT(listen);
  return is_rds(fd) ? fail(EOPNOTSUPP) : plain(fd, backlog);
}

EXPORT int shutdown(int fd, int how) {
  static auto* const plain = VERBATIM_NEXT(shutdown);
  return is_rds(fd) ? fail(EOPNOTSUPP) : plain(fd, how);
}

}  // extern "C"

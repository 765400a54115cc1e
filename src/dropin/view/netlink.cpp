#include "dropin/view/netlink.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/view/next.h"
#include "dropin/view/redirect.h"

namespace verbatim::view {
namespace {

constexpr char kEnding[] = ".netlink";                 // After the view's folder: service/folder.h.
constexpr char kPortName[] = "verbatim-netlink-%08x";  // Abstract; the agent reads the number.

/// Keeps `errno` as it is.
class KeptErrno {
 public:
  KeptErrno() = default;
  ~KeptErrno() { errno = kept_; }
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;

 private:
  int kept_ = errno;
};

/// Returns false if the path is too long.
bool agent_address(sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  const char* const view = root();
  const int length = view == nullptr ? -1
                                     : std::snprintf(address.sun_path, sizeof address.sun_path,
                                                     "%s%s", view, kEnding);
  return length > 0 && static_cast<std::size_t>(length) < sizeof address.sun_path;
}

int plain_name(int fd, sockaddr_un& name, socklen_t& length) {
  VERBATIM_NEXT(call, "getsockname", int(int, sockaddr*, socklen_t*));
  length = sizeof name;
  return call(fd, reinterpret_cast<sockaddr*>(&name), &length);
}

/// Returns false if another socket has the port.
bool take_port(int fd, std::uint32_t port) {
  VERBATIM_NEXT(call, "bind", int(int, const sockaddr*, socklen_t));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, kPortName, port);
  return call(fd, reinterpret_cast<const sockaddr*>(&name),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
                  static_cast<socklen_t>(length)) == 0;
}

std::uint32_t port_of(int fd) {
  sockaddr_un name{};
  socklen_t length = 0;
  unsigned port = 0;
  if (plain_name(fd, name, length) != 0 || length >= sizeof name) return 0;
  return std::sscanf(name.sun_path + 1, kPortName, &port) == 1 ? port : 0;
}

void put_address(const sockaddr_nl& from, void* address, socklen_t& length) {
  std::memcpy(address, &from, std::min<std::size_t>(length, sizeof from));
  length = sizeof from;
}

}  // namespace

int open_rdma_netlink(int type) {
  VERBATIM_NEXT(open_socket, "socket", int(int, int, int));
  VERBATIM_NEXT(connect_socket, "connect", int(int, const sockaddr*, socklen_t));
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (kind != SOCK_RAW && kind != SOCK_DGRAM) return errno = ESOCKTNOSUPPORT, -1;
  sockaddr_un address{};
  if (!agent_address(address)) return errno = EPROTONOSUPPORT, -1;
  const int fd = open_socket(AF_UNIX, SOCK_SEQPACKET | (type & SOCK_CLOEXEC), 0);
  if (fd < 0) return -1;
  int result = 0;
  do {
    result = connect_socket(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    close(fd);
    return errno = EPROTONOSUPPORT, -1;
  }
  if ((type & SOCK_NONBLOCK) != 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

bool is_rdma_netlink(int fd) {
  const KeptErrno kept;
  sockaddr_un peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  if (peer.sun_family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path)) return false;
  peer.sun_path[sizeof peer.sun_path - 1] = '\0';
  const std::size_t size = std::strlen(peer.sun_path);
  constexpr std::size_t kEndingSize = sizeof kEnding - 1;
  return size > kEndingSize && std::strcmp(peer.sun_path + size - kEndingSize, kEnding) == 0;
}

/// The process's id as the kernel has it, or a negative number; false if all are taken.
static bool take_any_port(int fd) {
  constexpr std::int32_t kFirst = -4097, kLast = kFirst - 4096;
  const KeptErrno kept;
  if (take_port(fd, static_cast<std::uint32_t>(getpid()))) return true;
  std::int32_t other = kFirst;
  while (other > kLast && !take_port(fd, static_cast<std::uint32_t>(other))) --other;
  return other > kLast;
}

int bind_rdma_netlink(int fd, const sockaddr* address, socklen_t length) {
  sockaddr_nl wanted{};
  if (length < sizeof wanted) return errno = EINVAL, -1;
  std::memcpy(&wanted, address, sizeof wanted);
  const std::uint32_t has = port_of(fd);
  if (has != 0) return wanted.nl_pid == 0 || wanted.nl_pid == has ? 0 : (errno = EINVAL, -1);
  if (wanted.nl_pid != 0) return take_port(fd, wanted.nl_pid) ? 0 : (errno = EADDRINUSE, -1);
  return take_any_port(fd) ? 0 : (errno = EADDRINUSE, -1);
}

int name_rdma_netlink(int fd, sockaddr* address, socklen_t* length) {
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_pid = port_of(fd);
  put_address(name, address, *length);
  return 0;
}

void put_kernel_address(void* address, socklen_t& length) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  put_address(kernel, address, length);
}

}  // namespace verbatim::view

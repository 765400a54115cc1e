/// The socket calls of the C library, interposed for sockets of RDMA netlink alone. What every
/// program calls often costs one comparison: only a socket that was asked for by netlink's names,
/// or a source address of a Unix socket where the caller has room for netlink's, is looked at.
#include <cerrno>
#include <cstddef>

#include <linux/netlink.h>
#include <sys/socket.h>

#include "dropin/view/netlink.h"
#include "dropin/view/next.h"
#include "dropin/view/redirect.h"

using verbatim::view::is_rdma_netlink;

namespace {

/// A received datagram's source is the kernel. `room`: what the caller had for the address.
bool has_agents_address(int fd, const void* address, socklen_t room) {
  return address != nullptr && room == sizeof(sockaddr_nl) &&
         static_cast<const sockaddr*>(address)->sa_family == AF_UNIX && is_rdma_netlink(fd);
}

}  // namespace

VERBATIM_EXPORT int socket(int domain, int type, int protocol) {
  VERBATIM_NEXT(call, "socket", int(int, int, int));
  const bool is_rdma = domain == AF_NETLINK && protocol == NETLINK_RDMA;
  if (is_rdma && verbatim::view::root() != nullptr) return verbatim::view::open_rdma_netlink(type);
  return call(domain, type, protocol);
}

VERBATIM_EXPORT int bind(int fd, const sockaddr* address, socklen_t length) {
  VERBATIM_NEXT(call, "bind", int(int, const sockaddr*, socklen_t));
  const bool is_netlink =
      address != nullptr && length >= sizeof address->sa_family && address->sa_family == AF_NETLINK;
  if (is_netlink && is_rdma_netlink(fd)) {
    return verbatim::view::bind_rdma_netlink(fd, address, length);
  }
  return call(fd, address, length);
}

VERBATIM_EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) {
  VERBATIM_NEXT(call, "getsockname", int(int, sockaddr*, socklen_t*));
  const socklen_t room = length == nullptr ? 0 : *length;
  const int result = call(fd, address, length);
  if (result != 0 || room < sizeof address->sa_family || address->sa_family != AF_UNIX ||
      !is_rdma_netlink(fd)) {
    return result;
  }
  *length = room;
  return verbatim::view::name_rdma_netlink(fd, address, length);
}

/// Options of netlink (acknowledgements without the request, memberships of groups) change nothing
/// that the agent says.
VERBATIM_EXPORT int setsockopt(int fd, int level, int name, const void* value, socklen_t size) {
  VERBATIM_NEXT(call, "setsockopt", int(int, int, int, const void*, socklen_t));
  if (level == SOL_NETLINK && is_rdma_netlink(fd)) return 0;
  return call(fd, level, name, value, size);
}

VERBATIM_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  VERBATIM_NEXT(call, "recvmsg", ssize_t(int, msghdr*, int));
  const socklen_t room = message == nullptr ? 0 : message->msg_namelen;
  const ssize_t result = call(fd, message, flags);
  if (result >= 0 && has_agents_address(fd, message->msg_name, room)) {
    message->msg_namelen = room;
    verbatim::view::put_kernel_address(message->msg_name, message->msg_namelen);
  }
  return result;
}

#define VERBATIM_RECVFROM(NAME, DECLARED, PASSED)                                               \
  VERBATIM_EXPORT ssize_t NAME(int fd, void* out, std::size_t size VERBATIM_UNPACK DECLARED,    \
                               int flags, sockaddr* address, socklen_t* length) {               \
    VERBATIM_NEXT(                                                                              \
        call, #NAME,                                                                            \
        ssize_t(int, void*, std::size_t VERBATIM_UNPACK DECLARED, int, sockaddr*, socklen_t*)); \
    const socklen_t room = address == nullptr || length == nullptr ? 0 : *length;               \
    const ssize_t result = call(fd, out, size VERBATIM_UNPACK PASSED, flags, address, length);  \
    if (result >= 0 && has_agents_address(fd, address, room)) {                                 \
      *length = room;                                                                           \
      verbatim::view::put_kernel_address(address, *length);                                     \
    }                                                                                           \
    return result;                                                                              \
  }
#define VERBATIM_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__
VERBATIM_RECVFROM(recvfrom, (), ())
VERBATIM_RECVFROM(__recvfrom_chk, (std::size_t room_of_out), (room_of_out))

#pragma once

#include <sys/socket.h>

/// Sockets of RDMA netlink, in whose place programs get a connection to their node's agent, which
/// answers as the kernel would (src/agent/netlink). The connection is a Unix socket that keeps
/// datagrams apart; what these functions do makes it look like netlink's. They keep no state: a
/// descriptor may be duplicated, inherited or passed on.
namespace verbatim::view {

/// As `socket(AF_NETLINK, type, NETLINK_RDMA)`. EPROTONOSUPPORT, as without the kernel's module, if
/// no agent runs.
int open_rdma_netlink(int type);
/// Returns true for a socket that `open_rdma_netlink` has made. Changes no errno.
bool is_rdma_netlink(int fd);

/// As `bind` to a netlink address: the socket gets its port, or a free one.
int bind_rdma_netlink(int fd, const sockaddr* address, socklen_t length);
/// As `getsockname`.
int name_rdma_netlink(int fd, sockaddr* address, socklen_t* length);
/// Writes the kernel's address, as the source of what was received. `length`: the room, then the
/// address's size.
void put_kernel_address(void* address, socklen_t& length);

}  // namespace verbatim::view

#pragma once

#include <vector>

#include <poll.h>

#include "dropin/rspreload/fd_table.h"

/// Sockets of programs that fork. An rsocket cannot pass from a parent to its child. So with
/// RDMAV_FORK_SAFE a stream socket begins as one of TCP, and becomes an rsocket when a process
/// uses it: until then it is pending, and all processes that have it can but close it. The protocol
/// is that of rdma-core's librspreload, and both programs must follow it:
///
///     who uses the accepted socket                     who uses the connected socket
///     listens at the port of the accepted one,
///     as an rsocket
///          ------- 4 bytes of zero, TCP ------->       looks at them
///          <------ connection of rsockets ------       connects to the TCP peer's address and port
///     both end the TCP connection; its number is the rsocket's from now on
///
/// At one time one process of a node listens at a port; others wait for it. Where the peer turns
/// out to know nothing of all this before it has been told zeroes, the socket stays one of TCP.
/// Afterwards, and where one of the two fails, the connection is reset.
namespace verbatim::rspreload {

/// RDMAV_FORK_SAFE, or IBV_FORK_SAFE, is set.
bool starts_as_tcp(int type, int protocol);

inline bool is_pending(Kind kind) { return kind >= Kind::connecting && kind <= Kind::converting; }

/// Before a call that uses the descriptor: makes an rsocket of it if it is pending. Waits for the
/// peer if such a call with such flags of recv(2) would wait. False with EAGAIN or EINTR.
bool settle_pending(int fd, int flags);
inline bool settle(int fd, int flags) {
  return !is_pending(kind_of(fd)) || settle_pending(fd, flags);
}
/// The same, and waits even where O_NONBLOCK is set.
bool settle_at_any_rate(int fd);

/// As far as it gets without waiting for the peer. True where it is pending no more.
bool advance(int fd);
/// Adds what to wait for before `advance` gets further, and says for how many milliseconds at most.
int watch(int fd, std::vector<pollfd>& fds);

/// Of a passive socket that is not needed any more.
void stop_listening(int fd);

}  // namespace verbatim::rspreload

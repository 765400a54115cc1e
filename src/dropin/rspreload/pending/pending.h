#pragma once

#include <vector>

#include <poll.h>

#include "dropin/rspreload/fd_table.h"

/// Sockets of programs that fork. A child cannot inherit an rsocket. So with RDMAV_FORK_SAFE a
/// stream socket begins as a TCP socket, and becomes an rsocket when a process uses it. Until then
/// it is pending, and all processes that have it can only close it. The protocol is that of
/// rdma-core's librspreload, and both programs must use it:
///
///     who uses the accepted socket                     who uses the connected socket
///     listens, as an rsocket, at any port
///          --- 4 bytes of zero, that port, TCP ->      looks at them
///          <------ connection of rsockets ------       connects to the TCP peer's address, that
///          port
///          <------ the magic number -------------      over TCP, once it is connected
///     both end the TCP connection; its number is the rsocket's from now on
///
/// rdma-core's library knows the zeroes alone, and connects to the TCP peer's own port. So that is
/// listened at, too, by one connection of a node at a time.
///
/// If the accepting node has not the address to which the peer came, as 127.0.0.1, the port is 0
/// and both remain TCP sockets. If the peer turns out not to use this protocol before it was sent
/// zeroes, the socket remains a TCP socket. After the zeroes, or if one of the two fails, the
/// connection is reset.
namespace verbatim::rspreload {

/// Called before a call that uses the descriptor: makes a pending one an rsocket. Waits for the
/// peer if a call with these flags of recv(2) would wait. Returns false with EAGAIN or EINTR.
bool settle_pending(int fd, int flags);
inline bool settle(int fd, int flags) {
  return !is_pending(kind_of(fd)) || settle_pending(fd, flags);
}
/// The same, but waits even if O_NONBLOCK is set.
bool settle_at_any_rate(int fd);

/// Wait for a connection whose peer has already ended its TCP connection, in milliseconds.
inline constexpr int kLateMs = 500;

/// Continues as far as possible without waiting for the peer. Returns true if it is not pending any
/// more. A peer that has left is waited for, as it may have connected before that; with 0 the
/// caller waits.
bool advance(int fd, int late_ms = kLateMs);
/// Adds the descriptors to wait for before `advance` can continue, and returns the longest wait in
/// milliseconds.
int watch(int fd, std::vector<pollfd>& fds);

/// Ends the listener of a passive socket that is not needed any more.
void stop_listening(int fd);

}  // namespace verbatim::rspreload

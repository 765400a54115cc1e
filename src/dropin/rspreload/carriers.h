#pragma once

#include <sys/socket.h>

#include "ulp/sdp/rules.h"

/// Sockets whose carrier (SDP, TCP, both, rsockets) is chosen by rules. The address is known when a
/// socket listens or connects, so until then it is a TCP socket. VERBATIM_SDP=on in the environment
/// turns the rules on; they are in the file that LIBSDP_CONFIG_FILE names (ulp/sdp/rules.h).
namespace verbatim::rspreload {

bool has_rules();

/// Gives an rsocket the options that the program has set on the TCP socket which it replaces.
void copy_options(int from, int to);
/// A stream that this carrier, which is not TCP alone, prefers.
int new_stream(ulp::sdp::Carrier carrier, int family, int type);

// For sockets of programs that fork (pending.h), which begin as TCP's.

/// The carrier of a connected socket: an rsocket's without rules.
ulp::sdp::Carrier carrier_of_connected(ulp::sdp::Role role, int fd);
/// The socket's peer has no SDP, and the socket remains TCP's: says so, once.
void note_tcp(int fd);
/// Rules say that this listener, or a connection to this address, is TCP's.
bool listens_as_tcp(int fd);
bool connects_as_tcp(const sockaddr* address, socklen_t length);

/// As listen(2) and connect(2) on an undecided socket, which is one of its carrier's afterwards.
int listen_by_rules(int fd, int backlog);
int connect_by_rules(int fd, const sockaddr* address, socklen_t length);

}  // namespace verbatim::rspreload

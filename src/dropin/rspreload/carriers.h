#pragma once

#include <sys/socket.h>

/// Sockets whose carrier (SDP, TCP, both, rsockets) is chosen by rules. The address is known when a
/// socket listens or connects, so until then it is a TCP socket. VERBATIM_SDP=on in the environment
/// turns the rules on; they are in the file that LIBSDP_CONFIG_FILE names (ulp/sdp/rules.h).
namespace verbatim::rspreload {

bool has_rules();

/// A stream for sockets of programs that fork (pending.h): SDP's if rules are on, else an rsocket.
int new_stream(int family, int type);
/// Rules say that this listener, or a connection to this address, is TCP's.
bool listens_as_tcp(int fd);
bool connects_as_tcp(const sockaddr* address, socklen_t length);

/// As listen(2) and connect(2) on an undecided socket, which is one of its carrier's afterwards.
int listen_by_rules(int fd, int backlog);
int connect_by_rules(int fd, const sockaddr* address, socklen_t length);

}  // namespace verbatim::rspreload

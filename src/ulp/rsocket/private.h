#pragma once

#include <cstdint>
#include <memory>

#include <sys/socket.h>

#include "ulp/sockets/source.h"

/// Private symbols of our librdmacm for librspreload, beside rsocket(7).
extern "C" {

/// Stores the rsocket as those see it who wait for it. Returns 0, or -1 with EBADF.
__attribute__((visibility("default"))) int verbatim_rsource(
    int socket, std::shared_ptr<verbatim::ulp::sockets::Source>* source);

/// socket(2) for a stream of the Sockets Direct Protocol, with the flags of `type`. All calls of
/// rsocket(7) work on it; it connects to SDP sockets alone. EPROTONOSUPPORT over iWARP.
__attribute__((visibility("default"))) int verbatim_sdp_socket(int type);

/// The listening stream accepts the connections of a TCP listener, too, which it owns from now on:
/// raccept returns their plain sockets. Returns 0, or -1 with errno.
__attribute__((visibility("default"))) int verbatim_accompany(int socket, int listener);

/// dup3(2), if `from`, `number` or both are rsockets: `number` atomically becomes another fd of
/// `from`'s file and is no longer an fd of its earlier file. An rsocket ends with its last fd.
/// Returns `number`, or -1 with errno as dup3(2).
__attribute__((visibility("default"))) int verbatim_rdup3(int from, int number, int flags);

/// The connection's private data will tell this port, the one of the socket that it replaces. In
/// the host's byte order. Returns 0, or -1 with EBADF.
__attribute__((visibility("default"))) int verbatim_rport(int socket, std::uint16_t port);
/// The port that the peer of an accepted stream has told; 0: none. -1 with EBADF.
__attribute__((visibility("default"))) int verbatim_rpeer_port(int socket);

/// sockatmark(3).
__attribute__((visibility("default"))) int verbatim_ratmark(int socket);

/// From now on the rsocket says that these are its names, instead of its connection's: those of the
/// TCP connection that it replaces. Returns 0, or -1 with EBADF.
__attribute__((visibility("default"))) int verbatim_rnames(int socket,
                                                           const sockaddr_storage* local,
                                                           const sockaddr_storage* peer);

}  // extern "C"

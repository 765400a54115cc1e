#pragma once

/// How two programs with this library know each other before a byte is sent: by the largest segment
/// (MSS) that a socket announces in its SYN or its answer. TCP takes the lesser of both sides', so
/// a listener announces the lesser: who connects sees it, and the listener keeps the SYN to see the
/// other. Both fit into any path that carries IPv6.
namespace verbatim::rspreload {

/// Before the socket listens, or connects.
void sign_listener(int fd);
void sign_client(int fd);

/// An accepted socket's peer has signed. Once a connection: the kernel keeps the SYN until then.
bool comes_from_ours(int fd);
/// A connected socket's peer has signed.
bool goes_to_ours(int fd);

}  // namespace verbatim::rspreload

#pragma once

#include "dropin/rspreload/fd_table.h"

struct msghdr;

/// Pending sockets come from other processes, too: by exec, and in messages (SCM_RIGHTS). What they
/// are is not in this process's table, but the kernel's socket has a mark: an option that means
/// nothing once it is connected.
namespace verbatim::rspreload {

/// Marks a socket that listens, and with it those that it will accept.
void mark_listening(int fd);
/// Marks a socket that is connected.
void mark_active(int fd);
/// A socket that was `fresh` or `connecting` is connected.
void become_active(int fd);

/// Enters the marked sockets that a message has brought.
void receive_numbers(const msghdr& message);
/// A connected rsocket in the message becomes a shadow (heirs/), which can be passed. Returns false
/// with EOPNOTSUPP, and says so, if the message has another one.
bool may_send_numbers(const msghdr& message);

}  // namespace verbatim::rspreload

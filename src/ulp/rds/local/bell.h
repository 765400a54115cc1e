#pragma once

#include "ulp/rds/local/inbox.h"

/// How who waits for an inbox is woken. Only the broker can make a program's socket readable: it
/// sends a packet, once until the inbox is empty again.
///
/// No wake-up is missed, whoever is stopped or killed at any instruction. A reader marks itself
/// (`wants_bell`) under the inbox's lock, after it has seen that there is nothing; a sender that
/// finds the mark under the same lock gives the kernel a packet for the broker *before* the message
/// is there, and only then takes the mark away: so at no instant are there a message and a sleeper,
/// but no mark, bell on its way or packet in the socket. The broker drops no bell: one that it
/// cannot ring now it owes, and an early one sets the mark again; if the broker ends, the socket's
/// end wakes the reader.
namespace verbatim::ulp::rds::local {

// The broker's side.

enum class Rung : std::uint8_t { done, later };
/// Requires the lock. `fd`: the broker's end of the program's socket. `later`: it has no room.
Rung ring(int fd, Inbox& inbox);
/// Takes the lock. `later`: it is held for long, too.
Rung ring_soon(int fd, Inbox& inbox);
/// There is a message, and who waits for it may sleep. No lock: for a look now and then.
bool may_sleep_on(const Inbox& inbox);

// The program's side. `fd`: its socket.

/// Takes the lock. Returns false if there is something; else the caller sleeps until its socket is
/// readable, and calls `get_up`.
bool lie_down(Inbox& inbox);
void get_up(int fd, Inbox& inbox, bool is_readable);
/// Requires the lock, and that the inbox is empty: the socket is not readable any more.
void silence(int fd, Inbox& inbox);
/// Reads the head of one of the socket's packets. As recvmsg; 0 also if a broker that was killed
/// has left packets unread (ECONNRESET).
ssize_t receive_packet(int fd, int flags);

}  // namespace verbatim::ulp::rds::local

#pragma once

#include <cstdint>
#include <string>

#include <sys/socket.h>
#include <sys/uio.h>

#include "ulp/rds/local/inbox.h"
#include "ulp/rds/local/protocol.h"

/// A program's side. C calls: -1 and errno. Only libc is called, by the functions of `Calls`: the
/// preload's own would come back here.
namespace verbatim::ulp::rds::local {

struct Calls {
  int (*socket)(int, int, int) = ::socket;
  int (*connect)(int, const sockaddr*, socklen_t) = ::connect;
  ssize_t (*sendmsg)(int, const msghdr*, int) = ::sendmsg;
  ssize_t (*recvmsg)(int, msghdr*, int) = ::recvmsg;
  int (*close)(int);
  int (*fcntl)(int, int, ...);
};
Calls& calls();

/// A new RDS socket: connected to the broker at `path`. `flags`: SOCK_NONBLOCK, SOCK_CLOEXEC.
int open_socket(const std::string& path, int flags);
/// Returns true if the descriptor is one of a broker at `path`.
bool is_socket(int fd, const std::string& path);

/// A question and its answer. `out`, `room`: what follows the answer; returns how many bytes
/// followed. `descriptor`: one that came beside it, or -1. `given`: one to go beside the question.
ssize_t ask(int fd, const Head& question, const void* value, Answer& answer, void* out = nullptr,
            std::size_t room = 0, int* descriptor = nullptr, int given = -1);
ssize_t ask(int fd, Ask what, Answer& answer);

/// AF_INET and AF_INET6 alone; EINVAL.
bool to_address(const sockaddr* from, socklen_t length, Address& to);
socklen_t length_of(const Address& address);
/// As the kernel copies names: cut to the room, the whole length told.
void copy_name(const Address& from, sockaddr* to, socklen_t* length);

/// `message`: as the program gives it, without flags. `to`: none (family 0) for the peer.
ssize_t send(int fd, const Address& to, const iovec* pieces, std::size_t count, int flags);

/// A file with all the pieces' bytes, or -1 (ENOBUFS, EFAULT). The caller closes it.
int file_of(const iovec* pieces, std::size_t count);

/// The inbox of the socket that is bound at `bound` (none: of this one), or null. `number`: what
/// its broker calls the socket. Ends with `unmap`.
Inbox* open_inbox(int fd, const Address& bound = {.ipv6 = {}}, std::uint64_t* number = nullptr);

/// The page of the broker at `fd`, or null. It stays mapped.
const SharedPage* open_page(int fd);

struct Received {
  Head head;
  bool is_cut = false;  // The message was longer than its room.
};
/// One message; ENETDOWN: the broker has ended. Returns the bytes that were copied, or, with
/// MSG_TRUNC, the length. A reader that may wait polls for a while first.
ssize_t receive(int fd, Inbox& inbox, const iovec* pieces, std::size_t count, int flags,
                Received& received);
/// Before the program waits for the descriptor to become readable: it will, or is, if the inbox has
/// something. `disarm` when it waits no more.
void arm(int fd, Inbox& inbox);
void disarm(Inbox& inbox);
/// The broker at `fd` has ended.
bool has_ended(int fd);
/// Sends the broker at `fd` a word without an answer. False: the socket is full, or the broker has
/// ended.
bool tell(int fd, Kind kind, std::uint64_t value);

}  // namespace verbatim::ulp::rds::local

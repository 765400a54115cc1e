// Calls that move several messages, or bytes between a socket and a pipe.
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/pending/pending.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

using Piece = std::array<char, 65'536>;

/// The result of as many calls of `one` as succeed, or the first one's error.
template <typename One>
int repeat(mmsghdr* messages, unsigned count, One&& one) {
  unsigned done = 0;
  for (; done < count; ++done) {
    const ssize_t bytes = one(messages[done].msg_hdr, done);
    if (bytes < 0) break;
    messages[done].msg_len = static_cast<unsigned>(bytes);
  }
  return done > 0 || count == 0 ? static_cast<int>(done) : -1;
}

/// Copies what is in the pipe, and takes out what could be sent.
ssize_t from_pipe(int pipe, int out, size_t size, unsigned flags) {
  std::array<int, 2> copy;
  if (pipe2(copy.data(), O_CLOEXEC) != 0) return -1;
  Piece piece;
  ssize_t bytes = tee(pipe, copy[1], size < piece.size() ? size : piece.size(), flags);
  if (bytes > 0) bytes = ::read(copy[0], piece.data(), static_cast<size_t>(bytes));
  for (const int end : copy) within([end] { return close(end); });
  if (bytes <= 0) return bytes;
  const int how = (flags & SPLICE_F_NONBLOCK) != 0 ? MSG_DONTWAIT : 0;
  const ssize_t sent = send(out, piece.data(), static_cast<size_t>(bytes), how);
  return sent < 0 ? -1 : ::read(pipe, piece.data(), static_cast<size_t>(sent));
}

/// Copies what has come, and takes out what the pipe had room for.
ssize_t to_pipe(int in, int pipe, size_t size, unsigned flags) {
  Piece piece;
  const int how = (flags & SPLICE_F_NONBLOCK) != 0 ? MSG_DONTWAIT : 0;
  const size_t most = size < piece.size() ? size : piece.size();
  const ssize_t bytes = recv(in, piece.data(), most, how | MSG_PEEK);
  if (bytes <= 0) return bytes;
  const ssize_t written = ::write(pipe, piece.data(), static_cast<size_t>(bytes));
  return written < 0 ? -1 : recv(in, piece.data(), static_cast<size_t>(written), MSG_WAITALL);
}

}  // namespace

extern "C" {

EXPORT int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  static auto* const plain = VERBATIM_NEXT(recvmmsg);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, messages, count, flags, timeout);
  return repeat(messages, count, [&](msghdr& message, unsigned done) {
    const bool may_wait = done == 0 || (flags & MSG_WAITFORONE) == 0;
    return recvmsg(fd, &message, (flags & ~MSG_WAITFORONE) | (may_wait ? 0 : MSG_DONTWAIT));
  });
}

EXPORT int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  static auto* const plain = VERBATIM_NEXT(sendmmsg);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, messages, count, flags);
  return repeat(messages, count,
                [&](const msghdr& message, unsigned) { return sendmsg(fd, &message, flags); });
}

EXPORT ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size,
                      unsigned flags) {
  static auto* const plain = VERBATIM_NEXT(splice);
  const int how = (flags & SPLICE_F_NONBLOCK) != 0 ? MSG_DONTWAIT : 0;
  if (!settle(in, how) || !settle(out, how)) return -1;
  if (is_ours(out)) return from_pipe(in, out, size, flags);
  if (is_ours(in)) return to_pipe(in, out, size, flags);
  return plain(in, in_offset, out, out_offset, size, flags);
}

}  // extern "C"

// Calls that send and receive.
#include <array>
#include <cerrno>

#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/inherited.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/pending/pending.h"

namespace verbatim::rspreload {
namespace {

/// As the kernel does, a send after the own end raises SIGPIPE.
ssize_t signalled(ssize_t sent, int flags) {
  if (sent >= 0 || errno != EPIPE || (flags & MSG_NOSIGNAL) != 0) return sent;
  raise(SIGPIPE);
  errno = EPIPE;
  return -1;
}

}  // namespace
}  // namespace verbatim::rspreload

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(recv);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd, [&] { return within([&] { return rrecv(fd, buffer, size, flags); }); },
      [&] { return plain(fd, buffer, size, flags); });
}

EXPORT ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* address,
                        socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(recvfrom);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd,
      [&] { return within([&] { return rrecvfrom(fd, buffer, size, flags, address, length); }); },
      [&] { return plain(fd, buffer, size, flags, address, length); });
}

EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(recvmsg);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd, [&] { return within([&] { return rrecvmsg(fd, message, flags); }); },
      [&] {
        const ssize_t bytes = plain(fd, message, flags);
        if (bytes >= 0 && !inside()) receive_numbers(*message);
        return bytes;
      });
}

EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(read);
  if (!settle(fd, 0)) return -1;
  return in_stream(
      fd, [&] { return within([&] { return rread(fd, buffer, size); }); },
      [&] { return plain(fd, buffer, size); });
}

EXPORT ssize_t readv(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(readv);
  if (!settle(fd, 0)) return -1;
  return in_stream(
      fd, [&] { return within([&] { return rreadv(fd, pieces, count); }); },
      [&] { return plain(fd, pieces, count); });
}

EXPORT ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(send);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd, [&] { return signalled(within([&] { return rsend(fd, buffer, size, flags); }), flags); },
      [&] { return plain(fd, buffer, size, flags); });
}

EXPORT ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* address,
                      socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(sendto);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd,
      [&] {
        return signalled(within([&] { return rsendto(fd, buffer, size, flags, address, length); }),
                         flags);
      },
      [&] { return plain(fd, buffer, size, flags, address, length); });
}

EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(sendmsg);
  if (!settle(fd, flags)) return -1;
  return in_stream(
      fd, [&] { return signalled(within([&] { return rsendmsg(fd, message, flags); }), flags); },
      [&] {
        if (!inside() && !may_send_numbers(*message)) return ssize_t{-1};
        return plain(fd, message, flags);
      });
}

EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(write);
  if (!settle(fd, 0)) return -1;
  return in_stream(
      fd, [&] { return signalled(within([&] { return rwrite(fd, buffer, size); }), 0); },
      [&] { return plain(fd, buffer, size); });
}

EXPORT ssize_t writev(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(writev);
  if (!settle(fd, 0)) return -1;
  return in_stream(
      fd, [&] { return signalled(within([&] { return rwritev(fd, pieces, count); }), 0); },
      [&] { return plain(fd, pieces, count); });
}

EXPORT ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  static auto* const plain = next<ssize_t(int, int, off_t*, size_t)>("sendfile");
  if (!settle(out, 0)) return -1;
  if (!is_ours(out)) return plain(out, in, offset, count);
  std::array<char, 65'536> piece;
  const size_t size = count < piece.size() ? count : piece.size();
  const ssize_t bytes =
      offset == nullptr ? ::read(in, piece.data(), size) : ::pread(in, piece.data(), size, *offset);
  if (bytes <= 0) return bytes;
  const ssize_t sent = ::write(out, piece.data(), static_cast<size_t>(bytes));
  if (offset != nullptr && sent > 0) *offset += sent;
  if (offset == nullptr && sent < bytes) ::lseek(in, (sent > 0 ? sent : 0) - bytes, SEEK_CUR);
  return sent;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t* offset, size_t count) {
  return sendfile(out, in, offset, count);
}

}  // extern "C"

// Socket calls with one descriptor.
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>

#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dropin/rspreload/carriers.h"
#include "dropin/rspreload/environment.h"
#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/inherited.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/own_numbers.h"
#include "dropin/rspreload/pending/pending.h"
#include "dropin/rspreload/pending/sign.h"
#include "ulp/rsocket/private.h"

namespace verbatim::rspreload {
namespace {

/// Sockets that the libraries create for themselves remain plain.
bool is_librarys(const void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libibverbs.so") != nullptr ||
         std::strstr(info.dli_fname, "librdmacm.so") != nullptr;
}

bool is_rsocket(int number) {
  std::shared_ptr<verbatim::ulp::sockets::Source> source;
  return within([&] { return verbatim_rsource(number, &source); }) == 0;
}

int accepted(int fd, sockaddr* address, socklen_t* length, int flags) {
  restore_environment();  // Since it listened.
  const int number = with_low_number(within([&] { return raccept(fd, address, length); }), flags);
  if (number < 0) return -1;
  if (!is_rsocket(number)) {  // A TCP connection of a listener that has both.
    if ((flags & SOCK_NONBLOCK) != 0) within([&] { return fcntl(number, F_SETFL, O_NONBLOCK); });
    if ((flags & SOCK_CLOEXEC) != 0) within([&] { return fcntl(number, F_SETFD, FD_CLOEXEC); });
    return number;
  }
  if (!set_kind(number, Kind::rsocket)) {
    within([&] { return rclose(number); });
    errno = EMFILE;
    return -1;
  }
  if ((flags & SOCK_NONBLOCK) != 0) rfcntl(number, F_SETFL, O_NONBLOCK);
  return number;
}

/// Handles TCP's result of accept on a socket that may be `listening`.
int accepted_pending(int listener, int number) {
  if (number < 0 || kind_of(listener) != Kind::listening) return number;
  if (set_kind(number, Kind::passive)) return number;
  within([&] { return close(number); });
  errno = EMFILE;
  return -1;
}

/// As the kernel does, a send after the own end raises SIGPIPE.
ssize_t signalled(ssize_t sent, int flags) {
  if (sent >= 0 || errno != EPIPE || (flags & MSG_NOSIGNAL) != 0) return sent;
  raise(SIGPIPE);
  errno = EPIPE;
  return -1;
}

/// Handles TCP's result of connect on a socket that may be `fresh`.
void note_connect(int fd, int error) {
  if (error == EINPROGRESS || error == EINTR) {
    replace_kind(fd, Kind::fresh, Kind::connecting);
  } else if (error == 0 || error == EISCONN) {
    become_active(fd);
  }
}

}  // namespace
}  // namespace verbatim::rspreload

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

extern "C" {

[[noreturn]] void __chk_fail();  // libc's: called when a buffer would be overrun.

EXPORT int socket(int domain, int type, int protocol) {
  static auto* const plain = VERBATIM_NEXT(socket);
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  const bool wanted =
      (domain == AF_INET || domain == AF_INET6) && (kind == SOCK_STREAM || kind == SOCK_DGRAM);
  if (!wanted || inside() || is_librarys(__builtin_return_address(0))) {
    return plain(domain, type, protocol);
  }
  if (starts_as_tcp(kind, protocol)) {
    const int number = plain(domain, type, protocol);
    set_kind(number, Kind::fresh);
    return number;
  }
  restore_environment();
  if (kind == SOCK_STREAM && has_rules()) {
    const int number = plain(domain, type, protocol);
    set_kind(number, Kind::undecided);
    return number;
  }
  const int number = with_low_number(within([&] { return rsocket(domain, type, protocol); }), type);
  if (number < 0) return plain(domain, type, protocol);
  if (set_kind(number, Kind::rsocket)) return number;
  within([&] { return rclose(number); });
  return plain(domain, type, protocol);
}

EXPORT int bind(int fd, const sockaddr* address, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(bind);
  if (!is_ours(fd)) return plain(fd, address, length);
  return within([&] { return rbind(fd, address, length); });
}

EXPORT int listen(int fd, int backlog) {
  static auto* const plain = VERBATIM_NEXT(listen);
  if (is_ours(fd)) return within([&] { return rlisten(fd, backlog); });
  if (kind_of(fd) == Kind::undecided) return listen_by_rules(fd, backlog);
  if (kind_of(fd) == Kind::fresh && listens_as_tcp(fd)) set_kind(fd, Kind::other);
  if (kind_of(fd) == Kind::fresh) sign_listener(fd);
  const int result = plain(fd, backlog);
  if (result == 0 && replace_kind(fd, Kind::fresh, Kind::listening)) {
    mark_listening(fd);
  }
  return result;
}

EXPORT int accept(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(accept);
  if (is_ours(fd)) return accepted(fd, address, length, 0);
  return accepted_pending(fd, plain(fd, address, length));
}

EXPORT int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  static auto* const plain = VERBATIM_NEXT(accept4);
  if (is_ours(fd)) return accepted(fd, address, length, flags);
  return accepted_pending(fd, plain(fd, address, length, flags));
}

EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(connect);
  if (is_ours(fd)) return within([&] { return rconnect(fd, address, length); });
  if (kind_of(fd) == Kind::undecided) return connect_by_rules(fd, address, length);
  if (kind_of(fd) == Kind::fresh && connects_as_tcp(address, length)) set_kind(fd, Kind::other);
  if (kind_of(fd) == Kind::fresh) sign_client(fd);
  const int result = plain(fd, address, length);
  note_connect(fd, result == 0 ? 0 : errno);
  return result;
}

EXPORT int shutdown(int fd, int how) {
  static auto* const plain = VERBATIM_NEXT(shutdown);
  if (how != SHUT_RDWR && !settle(fd, 0)) return -1;
  if (!is_ours(fd)) return plain(fd, how);
  return within([&] { return rshutdown(fd, how); });
}

EXPORT ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(recv);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size, flags);
  return within([&] { return rrecv(fd, buffer, size, flags); });
}

EXPORT ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* address,
                        socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(recvfrom);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size, flags, address, length);
  return within([&] { return rrecvfrom(fd, buffer, size, flags, address, length); });
}

EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(recvmsg);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) {
    const ssize_t bytes = plain(fd, message, flags);
    if (bytes >= 0 && !inside()) receive_numbers(*message);
    return bytes;
  }
  return within([&] { return rrecvmsg(fd, message, flags); });
}

EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(read);
  if (!settle(fd, 0)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size);
  return within([&] { return rread(fd, buffer, size); });
}

EXPORT ssize_t readv(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(readv);
  if (!settle(fd, 0)) return -1;
  if (!is_ours(fd)) return plain(fd, pieces, count);
  return within([&] { return rreadv(fd, pieces, count); });
}

EXPORT ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(send);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size, flags);
  return signalled(within([&] { return rsend(fd, buffer, size, flags); }), flags);
}

EXPORT ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* address,
                      socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(sendto);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size, flags, address, length);
  return signalled(within([&] { return rsendto(fd, buffer, size, flags, address, length); }),
                   flags);
}

EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(sendmsg);
  if (!settle(fd, flags)) return -1;
  if (!is_ours(fd)) {
    if (message->msg_controllen != 0 && !inside() && !may_send_numbers(*message)) return -1;
    return plain(fd, message, flags);
  }
  return signalled(within([&] { return rsendmsg(fd, message, flags); }), flags);
}

EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(write);
  if (!settle(fd, 0)) return -1;
  if (!is_ours(fd)) return plain(fd, buffer, size);
  return signalled(within([&] { return rwrite(fd, buffer, size); }), 0);
}

EXPORT ssize_t writev(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(writev);
  if (!settle(fd, 0)) return -1;
  if (!is_ours(fd)) return plain(fd, pieces, count);
  return signalled(within([&] { return rwritev(fd, pieces, count); }), 0);
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

EXPORT int getpeername(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getpeername);
  if (!is_ours(fd)) return plain(fd, address, length);
  return within([&] { return rgetpeername(fd, address, length); });
}

EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockname);
  if (!is_ours(fd)) return plain(fd, address, length);
  return within([&] { return rgetsockname(fd, address, length); });
}

EXPORT int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(setsockopt);
  if (!is_ours(fd)) return plain(fd, level, option, value, length);
  return within([&] { return rsetsockopt(fd, level, option, value, length); });
}

EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockopt);
  if (!is_ours(fd)) return plain(fd, level, option, value, length);
  return within([&] { return rgetsockopt(fd, level, option, value, length); });
}

EXPORT int ioctl(int fd, unsigned long request, ...) {
  static auto* const plain = next<int(int, unsigned long, void*)>("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request == FIONREAD && !settle(fd, MSG_DONTWAIT)) return *static_cast<int*>(argument) = 0;
  if (!is_ours(fd)) return plain(fd, request, argument);
  if (request == FIONREAD) {
    std::shared_ptr<verbatim::ulp::sockets::Source> source;
    if (within([&] { return verbatim_rsource(fd, &source); }) != 0) return -1;
    *static_cast<int*>(argument) =
        static_cast<int>(within([&] { return source->bytes_to_read(); }));
    return 0;
  }
  if (request == SIOCATMARK) {
    const int is_there = within([&] { return verbatim_ratmark(fd); });
    if (is_there >= 0) *static_cast<int*>(argument) = is_there;
    return is_there < 0 ? -1 : 0;
  }
  if (request == FIOSETOWN || request == SIOCSPGRP) {
    return within([&] { return rfcntl(fd, F_SETOWN, *static_cast<int*>(argument)); });
  }
  if (request == FIOGETOWN || request == SIOCGPGRP) {
    *static_cast<int*>(argument) = within([&] { return rfcntl(fd, F_GETOWN); });
    return 0;
  }
  if (request != FIONBIO) return plain(fd, request, argument);
  const int flags = *static_cast<int*>(argument) != 0 ? O_NONBLOCK : 0;
  return within([&] { return rfcntl(fd, F_SETFL, flags); });
}

// Variants with buffer size checks, for programs built with _FORTIFY_SOURCE.

EXPORT ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  if (size > room) __chk_fail();
  return read(fd, buffer, size);
}

EXPORT ssize_t __recv_chk(int fd, void* buffer, size_t size, size_t room, int flags) {
  if (size > room) __chk_fail();
  return recv(fd, buffer, size, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void* buffer, size_t size, size_t room, int flags,
                              sockaddr* address, socklen_t* length) {
  if (size > room) __chk_fail();
  return recvfrom(fd, buffer, size, flags, address, length);
}

}  // extern "C"

// Socket calls with one descriptor.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>

#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dropin/rspreload/carriers.h"
#include "dropin/rspreload/environment.h"
#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/heirs/heir.h"
#include "dropin/rspreload/heirs/shadow.h"
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

/// getsockname or getpeername of a descriptor that may be a shadow's.
template <typename Call>
int named(int fd, bool peer, Call* plain, sockaddr* address, socklen_t* length) {
  const socklen_t room = length == nullptr ? 0 : *length;
  const int result = plain(fd, address, length);
  const bool may_be = result == 0 && !inside() && room >= sizeof(sa_family_t);
  if (!may_be || address->sa_family != AF_UNIX) return result;
  const auto names = names_of_shadow(fd);
  if (!names) return result;
  const sockaddr_storage& name = peer ? names->peer : names->local;
  *length = name.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(address, &name, std::min(*length, room));
  return 0;
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
  adopt_if_inherited(fd);
  if (how != SHUT_RDWR && !settle(fd, 0)) return -1;
  return in_stream(
      fd, [&] { return within([&] { return rshutdown(fd, how); }); },
      [&] { return plain(fd, how); });
}

EXPORT int getpeername(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getpeername);
  adopt_if_inherited(fd);
  return in_stream(
      fd, [&] { return within([&] { return rgetpeername(fd, address, length); }); },
      [&] { return named(fd, true, plain, address, length); });
}

EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockname);
  adopt_if_inherited(fd);
  return in_stream(
      fd, [&] { return within([&] { return rgetsockname(fd, address, length); }); },
      [&] { return named(fd, false, plain, address, length); });
}

EXPORT int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(setsockopt);
  adopt_if_inherited(fd);
  return in_stream(
      fd, [&] { return within([&] { return rsetsockopt(fd, level, option, value, length); }); },
      [&] {
        const int result = plain(fd, level, option, value, length);
        const bool is_none =
            result != 0 && !inside() && shadow_option(fd, level, option, nullptr, nullptr);
        return is_none ? 0 : result;
      });
}

EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockopt);
  adopt_if_inherited(fd);
  return in_stream(
      fd, [&] { return within([&] { return rgetsockopt(fd, level, option, value, length); }); },
      [&] {
        if (!inside() && shadow_option(fd, level, option, value, length)) return 0;
        return plain(fd, level, option, value, length);
      });
}

EXPORT int ioctl(int fd, unsigned long request, ...) {
  static auto* const plain = next<int(int, unsigned long, void*)>("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  adopt_if_inherited(fd);
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

}  // extern "C"

#include "dropin/rspreload/own_numbers.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"
#include "ulp/rsocket/private.h"

namespace verbatim::rspreload {

namespace {

int least_high_number() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 2, kNumbers / 2));
}

}  // namespace

int with_high_number(int fd) {
  if (fd < 0) return fd;
  static std::atomic<int> least = least_high_number();
  const Inside mark;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, least.load());
  if (moved < 0 && errno == EINVAL) {  // The limit is lower than it was.
    least = least_high_number();
    moved = fcntl(fd, F_DUPFD_CLOEXEC, least.load());
  }
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

int with_low_number(int rsocket, int flags) {
  const Inside mark;
  const int low = rsocket < 0 ? -1 : fcntl(rsocket, F_DUPFD_CLOEXEC, 0);
  if (low < 0) return rsocket;
  const int moved = verbatim_rdup3(rsocket, low, (flags & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  if (moved >= 0) rclose(rsocket);
  return moved >= 0 ? moved : rsocket;
}

}  // namespace verbatim::rspreload

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

extern "C" {

// What our libraries wait by.

__attribute__((visibility("default"))) int eventfd(unsigned int value, int flags) {
  static auto* const plain = VERBATIM_NEXT(eventfd);
  const int fd = plain(value, flags);
  return inside() ? with_high_number(fd) : fd;
}

__attribute__((visibility("default"))) int epoll_create1(int flags) noexcept {
  static auto* const plain = VERBATIM_NEXT(epoll_create1);
  const int fd = plain(flags);
  return inside() ? with_high_number(fd) : fd;
}

__attribute__((visibility("default"))) int timerfd_create(int clock, int flags) noexcept {
  static auto* const plain = VERBATIM_NEXT(timerfd_create);
  const int fd = plain(clock, flags);
  return inside() ? with_high_number(fd) : fd;
}

}  // extern "C"

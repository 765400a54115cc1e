#include "dropin/rspreload/own_numbers.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"

namespace verbatim::rspreload {

int with_high_number(int fd) {
  if (fd < 0) return fd;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const Inside mark;
  const auto least = static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 2, kNumbers / 2));
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, least);
  if (moved < 0) return fd;
  close(fd);
  return moved;
}

}  // namespace verbatim::rspreload

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

extern "C" {

/// Our libraries' channels are eventfds.
__attribute__((visibility("default"))) int eventfd(unsigned int value, int flags) {
  static auto* const plain = VERBATIM_NEXT(eventfd);
  const int fd = plain(value, flags);
  return inside() ? with_high_number(fd) : fd;
}

}  // extern "C"

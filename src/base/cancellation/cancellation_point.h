#pragma once

#include <cstddef>

#include <poll.h>
#include <sys/types.h>

extern "C" {
// The C library's functions under their other names, which no drop-in replaces.
ssize_t __read(int fd, void* to, std::size_t size);
int __poll(pollfd* fds, nfds_t count, int timeout_ms);
}

namespace verbatim {

/// read(2) and poll(2) where a thread of the program may be cancelled: a call that waits as long
/// as the program wants. All others are no cancellation points (dropin/cancellation). A cancelled
/// thread runs the destructors of its frames, so none may be noexcept, and no state may be halfway.
inline ssize_t cancellable_read(int fd, void* to, std::size_t size) { return __read(fd, to, size); }
inline int cancellable_poll(pollfd* fds, nfds_t count, int timeout_ms) {
  return __poll(fds, count, timeout_ms);
}

}  // namespace verbatim

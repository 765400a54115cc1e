// Calls that wait for descriptors: those of sockets that have messages are readable.
#include <algorithm>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/next.h"
#include "dropin/rdspreload/sockets.h"

using namespace verbatim::rdspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  static auto* const plain = VERBATIM_NEXT(poll);
  const Waiting waiting;
  return plain(fds, count, timeout);
}

EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(ppoll);
  const Waiting waiting;
  return plain(fds, count, timeout, signals);
}

EXPORT int select(int end, fd_set* reads, fd_set* writes, fd_set* others, timeval* timeout) {
  static auto* const plain = VERBATIM_NEXT(select);
  const Waiting waiting;
  return plain(end, reads, writes, others, timeout);
}

EXPORT int pselect(int end, fd_set* reads, fd_set* writes, fd_set* others, const timespec* timeout,
                   const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(pselect);
  const Waiting waiting;
  return plain(end, reads, writes, others, timeout, signals);
}

EXPORT int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  static auto* const plain = VERBATIM_NEXT(epoll_wait);
  const Waiting waiting;
  return plain(epoll, events, most, timeout);
}

EXPORT int epoll_pwait(int epoll, epoll_event* events, int most, int timeout,
                       const sigset_t* signals) {
  static auto* const plain = VERBATIM_NEXT(epoll_pwait);
  const Waiting waiting;
  return plain(epoll, events, most, timeout, signals);
}

EXPORT int epoll_pwait2(int epoll, epoll_event* events, int most, const timespec* timeout,
                        const sigset_t* signals) {
  static auto* const plain =
      next<int(int, epoll_event*, int, const timespec*, const sigset_t*)>("epoll_pwait2");
  const Waiting waiting;
  return plain(epoll, events, most, timeout, signals);
}

}  // extern "C"

// epoll with rsockets among the descriptors.
#include <cerrno>
#include <memory>

#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/pending/pending_source.h"
#include "ulp/rsocket/private.h"
#include "ulp/sockets/epoll_sets.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.
namespace sockets = verbatim::ulp::sockets;

#define EXPORT __attribute__((visibility("default")))

namespace {

int answer(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

/// Null for a descriptor that the kernel can watch by itself.
std::shared_ptr<sockets::Source> source_of(int fd) {
  if (auto pending = pending_source(fd)) {
    pending->wake();
    if (!is_ours(fd)) return kind_of(fd) == Kind::other ? nullptr : pending;
  }
  std::shared_ptr<sockets::Source> source;
  if (is_ours(fd)) within([&] { return verbatim_rsource(fd, &source); });
  return source;
}

int sleep_in_kernel(int set, epoll_event* events, int most, int timeout, const sigset_t* mask) {
  static auto* const plain = VERBATIM_NEXT(epoll_pwait);
  const Outside mark;
  return plain(set, events, most, timeout, mask);
}

}  // namespace

extern "C" {

EXPORT int epoll_ctl(int set, int operation, int fd, epoll_event* event) {
  static auto* const plain = VERBATIM_NEXT(epoll_ctl);
  if (kind_of(fd) == Kind::other) return plain(set, operation, fd, event);
  if (operation != EPOLL_CTL_DEL && event == nullptr) return answer(EFAULT);
  if (operation == EPOLL_CTL_ADD) {
    auto source = source_of(fd);
    if (!source) return plain(set, operation, fd, event);
    const Inside mark;
    const auto own = sockets::find_or_make_set(set);
    return own ? answer(own->add(fd, std::move(source), *event)) : -1;
  }
  const auto own = sockets::find_set(set);
  if (!own || !own->has(fd)) return plain(set, operation, fd, event);
  const Inside mark;
  return answer(operation == EPOLL_CTL_DEL   ? own->remove(fd)
                : operation == EPOLL_CTL_MOD ? own->modify(fd, *event)
                                             : EINVAL);
}

EXPORT int epoll_pwait(int set, epoll_event* events, int most, int timeout, const sigset_t* mask) {
  static auto* const plain = VERBATIM_NEXT(epoll_pwait);
  auto own = sockets::find_set(set);
  if (!own || inside() || most <= 0) {
    const int count = plain(set, events, most, timeout, mask);
    if (count <= 0 || inside()) return count;
    own = sockets::find_set(set);
    if (!own) return count;
    // Another thread has added the first source meanwhile.
    const Inside mark;
    const int others = own->others({events, static_cast<std::size_t>(count)});
    if (others > 0) return others;
  }
  const Inside mark;
  return own->wait({events, static_cast<std::size_t>(most)}, timeout, mask, sleep_in_kernel);
}

EXPORT int epoll_wait(int set, epoll_event* events, int most, int timeout) {
  return epoll_pwait(set, events, most, timeout, nullptr);
}

EXPORT int epoll_pwait2(int set, epoll_event* events, int most, const timespec* timeout,
                        const sigset_t* mask) {
  static auto* const plain =
      next<int(int, epoll_event*, int, const timespec*, const sigset_t*)>("epoll_pwait2");
  if (!sockets::find_set(set)) return plain(set, events, most, timeout, mask);
  const int milliseconds =
      timeout == nullptr
          ? -1
          : static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999'999) / 1'000'000);
  return epoll_pwait(set, events, most, milliseconds, mask);
}

}  // extern "C"

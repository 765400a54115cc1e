#include "dropin/rspreload/pending/pending_source.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/inherited.h"
#include "dropin/rspreload/pending/pending.h"
#include "ulp/rsocket/private.h"

namespace verbatim::rspreload {
namespace {

/// A thousand sockets may wait for their peers' first bytes for long.
constexpr int kLongestWaitMs = 5000;
constexpr std::uint32_t kAnyEvent = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// Its handle has the TCP socket, the listeners to which the peer may connect, and a timer.
class PendingSource final : public ulp::sockets::Source {
 public:
  PendingSource(int fd, UniqueFd handle, UniqueFd timer)
      : fd_(fd), handle_(std::move(handle)), timer_(std::move(timer)) {
    also_watch(fd_);
    also_watch(timer_.get());
  }

  int handle() const override { return handle_.get(); }
  void arm() override {}
  bool armed() override { return true; }
  bool may_be_quick() override { return false; }

  /// TCP tells whether it is connected; then only the rsocket tells more.
  short look(short events) override {
    const Kind kind = own_kind();
    if (kind != Kind::fresh && kind != Kind::connecting) return 0;
    const Inside mark;
    pollfd state{.fd = fd_, .events = events, .revents = 0};
    if (poll(&state, 1, 0) <= 0) return 0;
    if (kind == Kind::connecting && state.revents != POLLIN) {
      become_active(fd_);
      const Outside calls;
      advance(fd_, 0);  // A peer without this library: the kernel watches the socket from now on.
    }
    return state.revents;
  }

  std::optional<std::shared_ptr<Source>> successor() override {
    const Kind kind = own_kind();
    if (kind == Kind::listening || kind == Kind::other) return nullptr;
    if (kind != Kind::rsocket) return std::nullopt;
    const Inside mark;
    std::shared_ptr<Source> source;
    if (verbatim_rsource(fd_, &source) != 0) return std::nullopt;
    return source;
  }

  void wake() override {
    note_edge();
    {
      const Inside mark;
      std::array<epoll_event, 8> ignored;
      epoll_wait(handle_.get(), ignored.data(), ignored.size(), 0);
    }
    const Outside mark;
    const int late_ms = has_left() ? 1 : 0;
    if (!is_pending(kind_of(fd_)) || advance(fd_, late_ms)) return;
    std::vector<pollfd> fds;
    int milliseconds = watch(fd_, fds);
    const bool may_be_long = left_at_ == 0 && kind_of(fd_) != Kind::converting;
    if (may_be_long) milliseconds = std::min(milliseconds << waits_, kLongestWaitMs);
    const Inside calls;
    for (const pollfd& it : fds) {
      if (it.fd != fd_) also_watch(it.fd);
    }
    const TimeNs now = monotonic_now();
    if (now < due_ && due_ <= now + milliseconds * kMillisecond) return;  // The timer is set.
    due_ = now + milliseconds * kMillisecond;
    waits_ = std::min(waits_ + 1, 6);
    const itimerspec limit{.it_interval = {},
                           .it_value = {.tv_sec = 0, .tv_nsec = milliseconds * 1'000'000L}};
    timerfd_settime(timer_.get(), 0, &limit, nullptr);
  }

 private:
  Kind own_kind() const {
    const Outside mark;
    return kind_of(fd_);
  }
  /// True if the peer ended its TCP connection so long ago that no connection of it will come.
  bool has_left() {
    const Inside mark;
    pollfd state{.fd = fd_, .events = POLLRDHUP, .revents = 0};
    if (left_at_ == 0 && poll(&state, 1, 0) > 0) left_at_ = monotonic_now();
    return left_at_ != 0 && monotonic_now() - left_at_ > kLateMs * kMillisecond;
  }
  void also_watch(int fd) {
    epoll_event event{.events = kAnyEvent, .data = {.fd = fd}};
    epoll_ctl(handle_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  const int fd_;
  UniqueFd handle_;
  UniqueFd timer_;
  TimeNs due_ = 0;  // When the timer ends.
  TimeNs left_at_ = 0;
  int waits_ = 0;
};

}  // namespace

std::shared_ptr<ulp::sockets::Source> pending_source(int fd) {
  const Kind kind = kind_of(fd);
  if (!is_pending(kind) && kind != Kind::fresh) return nullptr;
  const Inside mark;
  UniqueFd handle(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!handle || !timer) return nullptr;
  return std::make_shared<PendingSource>(fd, std::move(handle), std::move(timer));
}

}  // namespace verbatim::rspreload

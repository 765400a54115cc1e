#include "service/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "base/assert.h"

namespace verbatim::service {
namespace {

constexpr std::size_t kEventsMax = 64;

/// Rounded up, so that what is due is due when the wait is over.
int milliseconds_until(TimeNs deadline, TimeNs now) {
  constexpr TimeNs kLongest = 3600 * kSecond;
  if (deadline == kNever) return -1;
  if (deadline <= now) return 0;
  return static_cast<int>((std::min(deadline - now, kLongest) + kMillisecond - 1) / kMillisecond);
}

}  // namespace

Result<std::unique_ptr<Loop>> Loop::create(Clock clock) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return refuse_errno("epoll_create1");
  return std::unique_ptr<Loop>(new Loop(std::move(epoll), std::move(clock)));
}

Result<void> Loop::watch(int fd, std::uint32_t events, OnReady on_ready) {
  const std::uint64_t serial = ++last_serial_;
  epoll_event event{.events = events, .data = {.u64 = serial}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refuse_errno("epoll_ctl");
  watched_[serial] = std::make_unique<Watched>(Watched{fd, std::move(on_ready)});
  serial_of_[fd] = serial;
  return {};
}

void Loop::change(int fd, std::uint32_t events) {
  const auto found = serial_of_.find(fd);
  VERBATIM_ASSERT(found != serial_of_.end());
  epoll_event event{.events = events, .data = {.u64 = found->second}};
  VERBATIM_ASSERT(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void Loop::unwatch(int fd) {
  const auto found = serial_of_.find(fd);
  if (found == serial_of_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const auto watched = watched_.find(found->second);
  ended_.push_back(std::move(watched->second));
  watched_.erase(watched);
  serial_of_.erase(found);
}

void Loop::remove(Source& source) {
  std::ranges::replace(sources_, &source, static_cast<Source*>(nullptr));
}

TimeNs Loop::first_deadline(TimeNs until) const {
  for (const Source* source : sources_) {
    if (source != nullptr) until = std::min(until, source->deadline());
  }
  return until;
}

std::size_t Loop::turn(TimeNs until) {
  now_ = clock_();
  std::array<epoll_event, kEventsMax> events;
  const int found = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               milliseconds_until(first_deadline(until), now_));
  now_ = clock_();
  const std::size_t count = found > 0 ? static_cast<std::size_t>(found) : 0;
  for (const epoll_event& event : std::span(events).first(count)) {
    const auto watched = watched_.find(event.data.u64);
    if (watched != watched_.end()) watched->second->on_ready(event.events, now_);
  }
  serve_sources();
  ended_.clear();
  return count;
}

/// Each once: one whose deadline does not move holds up nobody.
void Loop::serve_sources() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i] != nullptr && sources_[i]->deadline() <= now_) sources_[i]->on_time(now_);
  }
  std::erase(sources_, nullptr);
}

Result<void> Loop::watch_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&ends, number);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signals_.reset(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return refuse_errno("signalfd");
  return watch(signals_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { stop(); });
}

}  // namespace verbatim::service

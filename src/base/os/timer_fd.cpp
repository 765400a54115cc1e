#include "base/os/timer_fd.h"

#include <utility>

#include <sys/timerfd.h>
#include <unistd.h>

namespace verbatim {

Result<TimerFd> TimerFd::create() {
  UniqueFd fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd) return refuse_errno("no descriptor for a timer");
  return TimerFd(std::move(fd));
}

void TimerFd::set(TimeNs at) {
  itimerspec when{};  // Zero disarms the timer.
  if (at != kNever) {
    when.it_value = {.tv_sec = static_cast<time_t>(at / kSecond),
                     .tv_nsec = static_cast<long>(at % kSecond)};
  }
  timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  at_ = at;
}

void TimerFd::clear() {
  std::uint64_t rung = 0;
  [[maybe_unused]] const auto got = read(fd_.get(), &rung, sizeof rung);
  at_ = kNever;
}

}  // namespace verbatim

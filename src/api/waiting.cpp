#include <algorithm>
#include <ctime>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>

#include "api/connection.h"

/// Waiting for completions: polls for a while, then sleeps until an event comes.
namespace verbatim::inline v1::detail {
namespace {

/// Bounds the sleep of a thread that shares its queue: another thread may take the completion that
/// it waits for.
constexpr std::chrono::milliseconds kLook{1};

}  // namespace

void Queue::ask_for_event() {
  const Guard guard(*this);
  ibv_req_notify_cq(cq, 0);
}

void Queue::watch(Connection& connection) {
  const Guard guard(*this);
  epoll_event of_connection{.events = EPOLLIN, .data = {.ptr = &connection}};
  epoll_ctl(events, EPOLL_CTL_ADD, connection.channel->fd, &of_connection);
}

void Queue::unwatch(Connection& connection) {
  const Guard guard(*this);
  epoll_ctl(events, EPOLL_CTL_DEL, connection.channel->fd, nullptr);
}

void Queue::take_events() {
  epoll_event ready[16];
  const int count = epoll_wait(events, ready, std::size(ready), 0);
  for (int i = 0; i < count; ++i) {
    auto* const connection = static_cast<Connection*>(ready[i].data.ptr);
    connection == nullptr ? take_completion_events() : connection->take_events();
    has_news_ |= connection != nullptr;
  }
}

void Queue::take_completion_events() {
  pollfd ready{.fd = channel->fd, .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, 0) == 1) {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel, &of, &context) != 0) return;
    if (++unacknowledged_events_ == 1024) {
      ibv_ack_cq_events(cq, std::exchange(unacknowledged_events_, 0));
    }
  }
}

bool Queue::arm() {
  const Guard guard(*this);
  take_events();
  ibv_req_notify_cq(cq, 0);
  // Completions before the queue was armed cause no event.
  collect();
  return !std::exchange(has_news_, false) && ready_ == nullptr;
}

void Queue::sleep(std::chrono::nanoseconds timeout) {
  const auto nanoseconds = timeout.count();
  const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  pollfd ready{.fd = events, .events = POLLIN, .revents = 0};
  if (ppoll(&ready, 1, nanoseconds < 0 ? nullptr : &limit, nullptr) <= 0) return;
  const Guard guard(*this);
  take_events();
}

/// Calls `look` until it returns true or the time is over; a negative time has no end.
template <typename Look>
void Queue::wait_until(Look look, std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const bool is_endless = timeout < timeout.zero();
  const auto begin = Clock::now();
  auto waited = Clock::duration::zero();
  while (waited < spin && (is_endless || waited < timeout)) {
    for (int i = 0; i < 64; ++i) {
      if (look()) return;
    }
    waited = Clock::now() - begin;
  }
  while (is_endless || waited < timeout) {
    ask_for_event();
    if (look()) return;
    auto left = is_endless ? timeout : timeout - waited;
    // Another thread's poll may take the completion that this one waits for.
    if (shared_by_threads && (is_endless || left > kLook)) left = kLook;
    if (timers_ != nullptr) {
      const auto timer = until_timer();
      left = left < left.zero() ? timer : std::min(left, timer);
    }
    sleep(left);
    if (look()) return;
    waited = Clock::now() - begin;
  }
}

int Queue::wait(std::chrono::nanoseconds timeout) {
  int count = poll();
  if (count == 0 && timeout != timeout.zero()) {
    wait_until([&] { return (count = poll()) != 0; }, timeout);
  }
  return count;
}

void Queue::wait_for(const Pending& pending, std::chrono::nanoseconds timeout) {
  // Until nothing is left, because completions before the queue was armed cause no event.
  const auto look = [&] {
    while (!pending.done() && poll() != 0) {
    }
    return pending.done();
  };
  if (!look() && timeout != timeout.zero()) wait_until(look, timeout);
}

// Timers
// -----------------------------------------------------------------------------------------------

void Queue::start(Timer& timer, Pending& pending, std::chrono::nanoseconds timeout) noexcept {
  timer.end_ = std::chrono::steady_clock::now() + timeout;
  timer.pending_ = &pending;
  Timer** at = &timers_;
  while (*at != nullptr && (*at)->end_ <= timer.end_) at = &(*at)->next_;
  timer.next_ = *at;
  timer.link_ = at;
  if (timer.next_ != nullptr) timer.next_->link_ = &timer.next_;
  *at = &timer;
}

int Queue::call_overdue() {
  int called = 0;
  const auto now = std::chrono::steady_clock::now();
  while (timers_ != nullptr && timers_->end_ <= now) {
    Pending& pending = *timers_->pending_;
    timers_->stop();
    // A completed one is in the other list.
    if (pending.done()) continue;
    ++called;
    std::exchange(pending.resume_, nullptr)(pending);
  }
  return called;
}

std::chrono::nanoseconds Queue::until_timer() const {
  const std::chrono::nanoseconds left = timers_->end_ - std::chrono::steady_clock::now();
  return std::max(left, left.zero());
}

}  // namespace verbatim::inline v1::detail

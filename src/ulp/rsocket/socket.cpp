#include "ulp/rsocket/socket.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include <infiniband/ib.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "base/cancellation/cancellation_point.h"
#include "base/log.h"

namespace verbatim::rsocket {
namespace {

/// Bounds each wait: another thread's call may have taken the event meanwhile.
constexpr TimeNs kLongestWaitMs = 100;

/// Returns the length of an address by its family; 0 for an unknown one, or null.
socklen_t length_of(const sockaddr* address) {
  if (address == nullptr) return 0;
  switch (address->sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

}  // namespace

Outcome<Handle> Handle::make() {
  Handle handle;
  handle.epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (handle.number() < 0) {
    const int error = errno;
    log(LogLevel::warn, "rsocket: no descriptor for it: {}", std::strerror(error));
    return fail(error);
  }
  return handle;
}

Outcome<void> Handle::add(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(number(), EPOLL_CTL_ADD, fd, &event) != 0) return fail(errno);
  return {};
}

std::vector<int> Handle::ready() const {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(number(), events.data(), events.size(), 0);
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(events[i].data.fd);
  return numbers;
}

void Handle::remove(int fd) { epoll_ctl(number(), EPOLL_CTL_DEL, fd, nullptr); }

void Socket::move_to(int number) {
  std::unique_lock lock(mutex_);
  handle_.move_to(number);
}

Outcome<void> Socket::wait_once(std::unique_lock<std::mutex>& lock, TimeNs end) {
  const TimeNs left = std::min(elapsed(monotonic_now(), end), kLongestWaitMs * kMillisecond);
  const auto limit_ms = static_cast<int>((left + kMillisecond - 1) / kMillisecond);
  if (somebody_waits_) {  // That thread takes the event and wakes this one.
    changed_.wait_for(lock, std::chrono::milliseconds(limit_ms));
    pthread_testcancel();
    return {};
  }
  somebody_waits_ = true;
  const auto resume = [&](void*) {
    lock.lock();
    somebody_waits_ = false;
    changed_.notify_all();
  };
  // Also if the thread is cancelled.
  const std::unique_ptr<void, decltype(resume)> resumed(this, resume);
  pollfd fd{.fd = number(), .events = POLLIN};
  lock.unlock();
  if (cancellable_poll(&fd, 1, limit_ms) < 0) return fail(errno);
  return {};
}

void copy_address(const sockaddr* from, sockaddr* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return;
  const socklen_t size = length_of(from);
  std::memcpy(to, from, std::min(*length, size));
  *length = size;
}

Outcome<int> integer_of(const void* value, socklen_t length) {
  if (value == nullptr) return fail(EFAULT);
  int number = 0;
  if (length < sizeof number) return fail(EINVAL);
  std::memcpy(&number, value, sizeof number);
  return number;
}

Outcome<void> give_integer(int value, void* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return fail(EFAULT);
  const socklen_t size = std::min<socklen_t>(*length, sizeof value);
  std::memcpy(to, &value, size);
  *length = size;
  return {};
}

}  // namespace verbatim::rsocket

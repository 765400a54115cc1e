#include <array>
#include <cerrno>

#include <sys/epoll.h>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"

/// TCP connections, each of one queue pair.
namespace verbatim::adapter {

Result<void> Progress::add_stream(int fd, Qpn qpn) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u32 = qpn.value()}};
  if (epoll_ctl(streams_epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return refuse(errno, "epoll refuses a connection");
  }
  streams_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<void> Progress::await_end(int fd, Qpn qpn) {
  const auto watched = watch(
      fd, [&adapter = adapter_, qpn] { adapter.drain_stream(qpn); }, EPOLLRDHUP | EPOLLONESHOT);
  if (watched) stop_polling(fd);
  return watched;
}

void Progress::remove_stream(int fd) {
  stop_polling(fd);
  unwatch(fd);
}

void Progress::stop_polling(int fd) {
  const bool was_there = epoll_ctl(streams_epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0;
  if (was_there) streams_.fetch_sub(1, std::memory_order_relaxed);
}

void Progress::await_room(int fd, Qpn qpn, bool awaits) {
  const std::uint32_t events = EPOLLIN | EPOLLRDHUP | (awaits ? EPOLLOUT : 0u);
  epoll_event event{.events = events, .data = {.u32 = qpn.value()}};
  epoll_ctl(streams_epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

std::size_t Progress::serve_streams(TimeNs now) {
  if (streams_.load(std::memory_order_relaxed) == 0) return 0;
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(streams_epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t qpn = events[static_cast<std::size_t>(i)].data.u32;
    QueuePair* const queue_pair = adapter_.find_local(qpn % kProgramQueuePairsMax);
    if (queue_pair != nullptr) queue_pair->on_stream(now);
  }
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

Result<void> Adapter::start_stream(Qpn qpn, StreamStart start) {
  QueuePair* queue_pair = nullptr;
  progress_->between_passes([&] { queue_pair = find(qpn); });
  if (queue_pair == nullptr)
    return refuse(EINVAL, fmt::format("there is no QP {:#x}", qpn.value()));
  return queue_pair->start_stream(std::move(start));
}

void Adapter::drain_stream(Qpn qpn) {
  progress_->between_passes([&] {
    if (QueuePair* const queue_pair = find(qpn)) queue_pair->on_stream(monotonic_now(), true);
  });
}

}  // namespace verbatim::adapter

#include "adapter/services/stream/stream_source.h"

#include <array>
#include <cerrno>

#include <sys/epoll.h>

namespace verbatim::adapter {

Result<std::unique_ptr<StreamSource>> StreamSource::create(Progress& progress, OnReady on_ready) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return refuse(errno, "no descriptors left for the connections of iWARP");
  std::unique_ptr<StreamSource> source(
      new StreamSource(progress, std::move(on_ready), std::move(epoll)));
  if (auto heard = progress.listen(source->epoll_.get()); !heard) {
    return std::unexpected(heard.error());
  }
  progress.add(*source);
  return source;
}

Result<void> StreamSource::add(int fd, Qpn qpn) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u32 = qpn.value()}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return refuse(errno, "epoll refuses a connection");
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<void> StreamSource::await_end(int fd, Qpn qpn) {
  const auto take_end = [this, qpn] {
    progress_.between_passes([&] { on_ready_(qpn, monotonic_now(), true); });
  };
  const auto watched = progress_.watch(fd, take_end, EPOLLRDHUP | EPOLLONESHOT);
  if (watched) stop_polling(fd);
  return watched;
}

void StreamSource::remove(int fd) {
  stop_polling(fd);
  progress_.unwatch(fd);
}

void StreamSource::stop_polling(int fd) {
  const bool was_there = epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0;
  if (was_there) count_.fetch_sub(1, std::memory_order_relaxed);
}

void StreamSource::await_room(int fd, Qpn qpn, bool awaits) {
  const std::uint32_t events = EPOLLIN | EPOLLRDHUP | (awaits ? EPOLLOUT : 0u);
  epoll_event event{.events = events, .data = {.u32 = qpn.value()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

std::size_t StreamSource::receive(TimeNs now) {
  if (count_.load(std::memory_order_relaxed) == 0) return 0;
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    on_ready_(Qpn(events[static_cast<std::size_t>(i)].data.u32), now, false);
  }
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

}  // namespace verbatim::adapter

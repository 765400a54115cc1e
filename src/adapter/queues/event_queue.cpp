#include "adapter/queues/event_queue.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cancellation/cancellation_point.h"

namespace verbatim::adapter {
namespace {

/// Reads one unit without waiting; sets errno on failure.
bool read_nowait(int fd) {
  std::uint64_t unit = 0;
  const iovec to{&unit, sizeof unit};
  return preadv2(fd, &to, 1, -1, RWF_NOWAIT) == sizeof unit;
}

bool read_one(int fd) {
  std::uint64_t unit = 0;
  // Under `reading_` it never blocks: the unit was seen, and no other thread reads.
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
  return read(fd, &unit, sizeof unit) == sizeof unit;
}

}  // namespace

Result<Semaphore> Semaphore::create(bool without_nowait) {
  UniqueFd fd(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
  if (!fd) return refuse(errno, fmt::format("eventfd: {}", std::strerror(errno)));
  // EAGAIN: the flag is supported. EOPNOTSUPP: this file does not support it.
  const bool nowait = !without_nowait && !read_nowait(fd.get()) && errno == EAGAIN;
  return Semaphore(std::move(fd), nowait);
}

Semaphore::Semaphore(Semaphore&& other) noexcept
    : fd_(std::move(other.fd_)), nowait_(other.nowait_) {}

Semaphore& Semaphore::operator=(Semaphore&& other) noexcept {
  fd_ = std::move(other.fd_);
  nowait_ = other.nowait_;
  return *this;
}

void Semaphore::post() {
  const std::uint64_t unit = 1;
  // Fails only at 2^64 - 2 units, or if the program has closed our descriptor; then the program
  // cannot work anyway.
  [[maybe_unused]] const auto written = write(fd(), &unit, sizeof unit);
}

Result<void> Semaphore::wait() {
  if (!nowait_) return wait_polling();
  std::uint64_t unit = 0;
  if (cancellable_read(fd(), &unit, sizeof unit) == sizeof unit) return {};
  return refuse(errno, errno == EAGAIN ? "no event is there" : std::strerror(errno));
}

/// No thread may sleep in `read` here: `try_take` could see a unit, lose it to the sleeping thread,
/// and sleep itself. So all readers check first, under one lock, and sleep in `poll`.
Result<void> Semaphore::wait_polling() {
  while (!try_take()) {
    const int flags = fcntl(fd(), F_GETFL);
    if (flags < 0) return refuse(errno, std::strerror(errno));
    if ((flags & O_NONBLOCK) != 0) return refuse(EAGAIN, "no event is there");
    pollfd readable{fd(), POLLIN, 0};
    if (cancellable_poll(&readable, 1, -1) < 0) return refuse(errno, std::strerror(errno));
  }
  return {};
}

bool Semaphore::try_take() {
  if (nowait_) return read_nowait(fd());
  const std::lock_guard guard(reading_);
  pollfd readable{fd(), POLLIN, 0};
  return poll(&readable, 1, 0) == 1 && (readable.revents & POLLIN) != 0 && read_one(fd());
}

}  // namespace verbatim::adapter

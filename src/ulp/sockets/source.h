#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"

namespace verbatim::ulp::sockets {

/// A flag of calls that move bytes: the call is that of the relay to which the stream was handed
/// over. Other calls that are in the stream then fail with ESTALE.
inline constexpr int kRelayed = 0x0010'0000;

/// A socket over RDMA as those see it who wait for it: its readiness is in the process's memory, so
/// the kernel cannot know it. rsockets are sources, as are pending sockets, which become rsockets.
///
/// While its user is busy, `look` is all: no system call. Before the user sleeps it calls `arm`,
/// looks once more, and then sleeps on `handle` if `armed` still holds; after that it calls `wake`.
/// Any thread.
class Source {
 public:
  virtual ~Source() = default;

  /// A descriptor that becomes readable at events that change the readiness: those of connections
  /// always, those of data only after `arm`.
  virtual int handle() const = 0;
  /// What poll(2) would return for these events (POLLERR and POLLHUP always), without waiting.
  virtual short look(short events) = 0;
  virtual void arm() = 0;
  /// True if the next event will make the handle readable. An event that was taken since `arm`,
  /// also by another thread, makes it false.
  virtual bool armed() = 0;
  /// The handle is readable: takes the events.
  virtual void wake() = 0;
  /// News may come through memory, within microseconds: a wait looks for them a while before it
  /// sleeps. All that a connection waits for until it is open comes by other threads and processes.
  virtual bool may_be_quick() { return true; }
  /// What the descriptor has become, if it is this source's no more; null: the kernel's own. Sets
  /// ask before they look, so nobody has to tell them, who might hold another set's lock.
  virtual std::optional<std::shared_ptr<Source>> successor() {
    if (is_handed_over_) return std::shared_ptr<Source>();
    return std::nullopt;
  }
  /// From now on the program's numbers are of a socket of the kernel's, which other processes have,
  /// too.
  void hand_over() { is_handed_over_ = true; }
  bool is_handed_over() const { return is_handed_over_; }
  /// True if the program has closed its last descriptor.
  virtual bool is_closed() const { return false; }
  /// As ioctl's FIONREAD.
  virtual std::size_t bytes_to_read() { return 0; }

  /// Counts what an edge-triggered wait must report: data that has come, room where there was none,
  /// a connection, an end.
  std::uint32_t edges() const { return edges_.load(std::memory_order_relaxed); }
  /// When the latest of them came.
  TimeNs came_at() const { return came_at_.load(std::memory_order_relaxed); }

 protected:
  void note_edge(TimeNs at = monotonic_now()) {
    came_at_.store(at, std::memory_order_relaxed);
    edges_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> edges_{0};
  std::atomic<TimeNs> came_at_{0};
  std::atomic<bool> is_handed_over_ = false;
};

}  // namespace verbatim::ulp::sockets

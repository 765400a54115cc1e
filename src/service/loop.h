#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim::service {

/// What acts by itself at a time: an engine's driver, a client that is given up.
class Source {
 public:
  virtual TimeNs deadline() const = 0;  // kNever: not.
  virtual void on_time(TimeNs now) = 0;

 protected:
  ~Source() = default;
};

/// The one loop of a process that serves: descriptors, and sources with their deadlines. The clock
/// is read when a turn begins and after it has slept, and is the test's in a test.
class Loop {
 public:
  /// `events`: EPOLLIN...
  using OnReady = std::function<void(std::uint32_t events, TimeNs now)>;
  using Clock = std::function<TimeNs()>;
  static Result<std::unique_ptr<Loop>> create(Clock clock = monotonic_now);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Level-triggered. The descriptor stays the caller's, and is unwatched before it is closed.
  Result<void> watch(int fd, std::uint32_t events, OnReady on_ready);
  void change(int fd, std::uint32_t events);
  /// The function is destroyed after the turn, so it may unwatch its own descriptor. An event that
  /// this turn still has for the descriptor is dropped, even if a new one has its number by then.
  void unwatch(int fd);

  void add(Source& source) { sources_.push_back(&source); }
  void remove(Source& source);

  /// Waits until a descriptor is ready, a source is due, or `until` has come (0: does not wait);
  /// calls each once. Returns how many descriptors were ready.
  std::size_t turn(TimeNs until = kNever);
  TimeNs now() const { return now_; }

  /// SIGTERM and SIGINT end `run`. Blocks them in the calling thread: call it before others start.
  Result<void> watch_signals();
  void stop() { should_stop_ = true; }
  bool should_stop() const { return should_stop_; }
  void run() {
    while (!should_stop_) turn();
  }

 private:
  struct Watched {
    int fd = -1;
    OnReady on_ready;
  };
  Loop(UniqueFd epoll, Clock clock)
      : epoll_(std::move(epoll)), clock_(std::move(clock)), now_(clock_()) {}
  TimeNs first_deadline(TimeNs until) const;
  void serve_sources();

  UniqueFd epoll_;
  UniqueFd signals_;
  Clock clock_;
  TimeNs now_ = 0;
  std::uint64_t last_serial_ = 0;
  /// By serial number: a descriptor's number may be another's in the same turn.
  std::unordered_map<std::uint64_t, std::unique_ptr<Watched>> watched_;
  std::unordered_map<int, std::uint64_t> serial_of_;
  std::vector<std::unique_ptr<Watched>> ended_;  // Until the turn is over.
  std::vector<Source*> sources_;                 // Null: removed in this turn.
  bool should_stop_ = false;
};

}  // namespace verbatim::service

#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "adapter/progress/progress.h"
#include "adapter/progress/task.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

/// The TCP connections of iWARP, each of one queue pair. Any thread.
class StreamSource final : public Source {
 public:
  /// Takes what has come for that queue pair, if there still is one; `to_the_end`, also an end that
  /// stands right behind it. During a turn.
  using OnReady = std::function<void(Qpn qpn, TimeNs now, bool to_the_end)>;
  /// `progress` asks it from now on, and is destroyed before it.
  static Result<std::unique_ptr<StreamSource>> create(Progress& progress, OnReady on_ready);

  Result<void> add(int fd, Qpn qpn);
  /// Nothing but its end is to come: turns look at it no more, the background thread does.
  Result<void> await_end(int fd, Qpn qpn);
  void remove(int fd);
  /// Also when it has room, or no longer.
  void await_room(int fd, Qpn qpn, bool awaits);

  std::size_t receive(TimeNs now) override;

 private:
  StreamSource(Progress& progress, OnReady on_ready, UniqueFd epoll)
      : progress_(progress), on_ready_(std::move(on_ready)), epoll_(std::move(epoll)) {}
  void stop_polling(int fd);

  Progress& progress_;
  const OnReady on_ready_;
  const UniqueFd epoll_;
  std::atomic<int> count_{0};  // Of connections in it.
};

}  // namespace verbatim::adapter

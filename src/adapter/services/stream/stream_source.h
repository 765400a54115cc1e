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

/// The TCP connections of iWARP, one per queue pair. Any thread.
class StreamSource final : public Source {
 public:
  /// Processes received data for that queue pair, if it still exists; with `to_the_end`, also an
  /// end right after the data. Called in a pass.
  using OnReady = std::function<void(Qpn qpn, TimeNs now, bool to_the_end)>;
  /// `progress` calls it from now on, and must be destroyed before it.
  static Result<std::unique_ptr<StreamSource>> create(Progress& progress, OnReady on_ready);

  Result<void> add(int fd, Qpn qpn);
  /// Only the connection's end is expected: passes do not read it any more, the background thread
  /// watches it.
  Result<void> await_end(int fd, Qpn qpn);
  void remove(int fd);
  /// Also calls when it has room to send, or no longer.
  void await_room(int fd, Qpn qpn, bool awaits);

  std::size_t receive(TimeNs now) override;

 private:
  StreamSource(Progress& progress, OnReady on_ready, UniqueFd epoll)
      : progress_(progress), on_ready_(std::move(on_ready)), epoll_(std::move(epoll)) {}
  void stop_polling(int fd);

  Progress& progress_;
  const OnReady on_ready_;
  const UniqueFd epoll_;
  std::atomic<int> count_{0};  // Number of connections.
};

}  // namespace verbatim::adapter

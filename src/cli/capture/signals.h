#pragma once

#include <csignal>
#include <utility>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::cli {

/// SIGINT, SIGTERM and SIGHUP as a descriptor, in the place of their default action. Writing into a
/// pipe without a reader gives EPIPE instead of SIGPIPE.
class Signals {
 public:
  static Result<Signals> take();
  /// Readable if a signal has come.
  int fd() const { return fd_.get(); }
  /// Returns the number of the next signal; 0 if none has come.
  int next();
  /// Restores, in a child of this process, what was before `take`.
  void restore() const;

 private:
  Signals(UniqueFd fd, const sigset_t& before) : fd_(std::move(fd)), before_(before) {}
  UniqueFd fd_;
  sigset_t before_;
};

}  // namespace verbatim::cli

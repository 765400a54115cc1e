#pragma once

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::agent {

/// Notified by the kernel (rtnetlink) when an interface or address of this namespace has changed.
/// What has changed is not decoded, since the kernel may drop messages: `read_interfaces` returns
/// the current state.
class InterfaceWatch {
 public:
  static Result<InterfaceWatch> open();

  /// Readable when something has changed.
  int fd() const { return fd_.get(); }
  /// Reads a bounded number of messages; if more are left, the descriptor stays readable.
  void drain() const;

 private:
  explicit InterfaceWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace verbatim::agent

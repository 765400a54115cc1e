#pragma once

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::agent {

/// Hears from the kernel (rtnetlink) that an interface or address of this namespace has changed.
/// Not what: `read_interfaces` tells how things are, also where the kernel had to drop messages.
class InterfaceWatch {
 public:
  static Result<InterfaceWatch> open();

  /// Readable when something has changed.
  int fd() const { return fd_.get(); }
  /// Takes what there is; more than it takes leaves the descriptor readable.
  void drain() const;

 private:
  explicit InterfaceWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace verbatim::agent

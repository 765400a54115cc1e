#pragma once

#include "base/error.h"
#include "base/unique_fd.h"

namespace verbatim::agent {

/// Hears from the kernel (rtnetlink) that an interface or address of this namespace has changed.
/// Not what: `read_interfaces` tells how things are, also where the kernel had to drop messages.
class LinkWatch {
 public:
  static Result<LinkWatch> open();

  /// Readable when something has changed.
  int fd() const { return fd_.get(); }
  /// Takes what there is; more than it takes leaves the descriptor readable.
  void drain() const;

 private:
  explicit LinkWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace verbatim::agent

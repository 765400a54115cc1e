#pragma once

#include <array>

#include <fcntl.h>

#include "base/os/unique_fd.h"

namespace verbatim::agent {

/// Descriptors that the agent holds so that its members find some: to serve them it lets these go
/// for a moment. Programs that want to become members get none of them.
class SpareDescriptors {
 public:
  /// `model`: any descriptor; the spare ones are copies of it. False where not all are there.
  bool fill(int model) {
    for (UniqueFd& fd : all_) {
      if (!fd) fd.reset(fcntl(model, F_DUPFD_CLOEXEC, 0));
      if (!fd) return false;
    }
    return true;
  }
  void let_go() {
    for (UniqueFd& fd : all_) fd.reset();
  }

 private:
  /// What a program that rejoins sends with its message, its connection, and some more.
  std::array<UniqueFd, 8> all_;
};

}  // namespace verbatim::agent

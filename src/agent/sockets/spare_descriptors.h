#pragma once

#include <array>

#include <fcntl.h>

#include "base/os/unique_fd.h"

namespace verbatim::agent {

/// Descriptors that the agent reserves for its members: in order to serve them it closes these for
/// a moment. Programs that want to join get none of them.
class SpareDescriptors {
 public:
  /// `model`: any descriptor, of which the spare ones are copies. Returns false if not all could be
  /// created.
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
  /// For the descriptors in a rejoining program's message, its connection, and some more.
  std::array<UniqueFd, 8> all_;
};

}  // namespace verbatim::agent

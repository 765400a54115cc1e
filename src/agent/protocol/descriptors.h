#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <sys/socket.h>

#include "base/os/unique_fd.h"

/// Descriptors beside a message of a Unix socket (SCM_RIGHTS).
namespace verbatim::agent {

/// What the kernel passes in one message at most (SCM_MAX_FD).
inline constexpr std::size_t kDescriptorsMax = 253;

/// Room for the descriptors of one message, in the form that system calls take.
class ControlBuffer {
 public:
  void receive_into(msghdr& message);
  /// At most kDescriptorsMax.
  void put(msghdr& message, std::span<const int> descriptors);

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> bytes_;
};

/// Those that came with a message.
std::vector<UniqueFd> take_descriptors(msghdr& message);

}  // namespace verbatim::agent

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <sys/socket.h>

#include "base/os/unique_fd.h"

/// Descriptors in messages of Unix sockets (SCM_RIGHTS).
namespace verbatim::agent {

/// The kernel's maximum per message (SCM_MAX_FD).
inline constexpr std::size_t kDescriptorsMax = 253;

/// Space for the descriptors of one message, in the form of system calls.
class ControlBuffer {
 public:
  void receive_into(msghdr& message);
  /// Adds at most kDescriptorsMax.
  void put(msghdr& message, std::span<const int> descriptors);

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> bytes_;
};

/// Returns the descriptors of a received message.
std::vector<UniqueFd> take_descriptors(msghdr& message);

}  // namespace verbatim::agent

#include "agent/protocol/descriptors.h"

#include <cstring>

#include "base/assert.h"

namespace verbatim::agent {

void ControlBuffer::receive_into(msghdr& message) {
  message.msg_control = bytes_.data();
  message.msg_controllen = bytes_.size();
}

void ControlBuffer::put(msghdr& message, std::span<const int> descriptors) {
  VERBATIM_ASSERT(descriptors.size() <= kDescriptorsMax);
  if (descriptors.empty()) return;
  bytes_.fill(0);
  message.msg_control = bytes_.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace verbatim::agent

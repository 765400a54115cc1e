#include "base/os/passed_descriptors.h"

#include <cerrno>

#include "base/assert.h"

namespace verbatim {
namespace {

msghdr message_of(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // The kernel only reads them.
  message.msg_iovlen = pieces.size();
  return message;
}

}  // namespace

void PassedDescriptors::put(msghdr& message, std::span<const int> descriptors) {
  VERBATIM_ASSERT(descriptors.size() <= kPassedDescriptorsMax);
  if (descriptors.empty()) return;
  message.msg_control = bytes_.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  std::memset(bytes_.data(), 0, message.msg_controllen);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

void PassedDescriptors::make_room(msghdr& message, std::size_t most) {
  VERBATIM_ASSERT(most <= kPassedDescriptorsMax);
  message.msg_control = bytes_.data();
  message.msg_controllen = most == 0 ? 0 : CMSG_LEN(most * sizeof(int));
}

std::size_t take_descriptors(const msghdr& message, std::span<UniqueFd> descriptors) {
  std::size_t count = 0;
  for_each_descriptor(message, [&](int fd) {
    UniqueFd owned(fd);
    if (count < descriptors.size()) descriptors[count++] = std::move(owned);
  });
  return count;
}

bool send_message(int socket, std::span<const iovec> pieces, std::span<const int> descriptors,
                  int flags) {
  PassedDescriptors beside;
  msghdr message = message_of(pieces);
  beside.put(message, descriptors);
  while (sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::optional<ReceivedMessage> receive_message(int socket, std::span<const iovec> pieces,
                                               std::span<UniqueFd> descriptors, int flags) {
  PassedDescriptors beside;
  msghdr message = message_of(pieces);
  ssize_t bytes = 0;
  do {
    beside.make_room(message, descriptors.size());
    bytes = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return std::nullopt;
  const std::size_t count = take_descriptors(message, descriptors);
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    for (UniqueFd& one : descriptors.first(count)) one.reset();
    errno = count == descriptors.size() ? EPROTO : EMFILE;
    return std::nullopt;
  }
  return ReceivedMessage{.bytes = static_cast<std::size_t>(bytes),
                         .descriptors = count,
                         .is_cut = (message.msg_flags & MSG_TRUNC) != 0};
}

}  // namespace verbatim

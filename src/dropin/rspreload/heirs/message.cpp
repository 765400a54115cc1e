#include "dropin/rspreload/heirs/message.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

struct Text {
  std::uint32_t serial = 0;
  Word word{};
  std::array<std::uint8_t, 3> reserved{};
};

using Room = std::array<std::byte, CMSG_SPACE(sizeof(int))>;

}  // namespace

bool send_over(int line, const LineMessage& message) {
  Text text{.serial = message.serial, .word = message.word};
  iovec piece{&text, sizeof text};
  alignas(cmsghdr) Room room{};
  msghdr whole{};
  whole.msg_iov = &piece;
  whole.msg_iovlen = 1;
  if (message.descriptor) {
    whole.msg_control = room.data();
    whole.msg_controllen = room.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&whole);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = message.descriptor.get();
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(line, &whole, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof text;
}

std::optional<LineMessage> receive_from(int line, int flags) {
  Text text;
  iovec piece{&text, sizeof text};
  alignas(cmsghdr) Room room{};
  msghdr whole{};
  whole.msg_iov = &piece;
  whole.msg_iovlen = 1;
  whole.msg_control = room.data();
  whole.msg_controllen = room.size();
  ssize_t bytes = 0;
  do {
    bytes = recvmsg(line, &whole, flags | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes == 0) errno = ECONNRESET;
  if (bytes <= 0) return std::nullopt;
  LineMessage message{.word = text.word, .serial = text.serial, .descriptor = {}};
  const cmsghdr* const head = CMSG_FIRSTHDR(&whole);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    message.descriptor.reset(descriptor);
  }
  if (bytes != sizeof text) return std::nullopt;
  return message;
}

}  // namespace verbatim::rspreload

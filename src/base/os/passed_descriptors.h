#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/os/unique_fd.h"

/// Descriptors in messages of Unix sockets (SCM_RIGHTS, unix(7)).
namespace verbatim {

/// The kernel's maximum per message (SCM_MAX_FD).
inline constexpr std::size_t kPassedDescriptorsMax = 253;

/// A message that has come.
struct ReceivedMessage {
  std::size_t bytes = 0;        // None: the other side has closed, or the message is empty.
  std::size_t descriptors = 0;  // So many of those that there was room for.
  bool is_cut = false;          // It had more bytes than there was room for.
};

/// sendmsg with `descriptors` beside the bytes, without SIGPIPE, again after a signal. Returns
/// false and sets errno if it fails.
bool send_message(int socket, std::span<const iovec> pieces, std::span<const int> descriptors,
                  int flags = 0);

/// recvmsg, again after a signal. `descriptors` get those beside the bytes, closed on exec. Returns
/// nothing and sets errno if it fails. A message whose descriptors did not all come is lost, and
/// none of them stays open: EPROTO if it has more than there is room for, EMFILE if this process
/// can have no more.
std::optional<ReceivedMessage> receive_message(int socket, std::span<const iovec> pieces,
                                               std::span<UniqueFd> descriptors, int flags = 0);

/// Control data of descriptors, for callers that call sendmsg and recvmsg otherwise.
class PassedDescriptors {
 public:
  /// Beside a message to send; at most kPassedDescriptorsMax.
  void put(msghdr& message, std::span<const int> descriptors);
  /// Beside a message to receive: exactly `most` descriptors fit. CMSG_SPACE is often more.
  void make_room(msghdr& message, std::size_t most);

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kPassedDescriptorsMax * sizeof(int))> bytes_;
};

/// Calls `use(cmsghdr&)` for each piece of control data that lies whole in the message: one that
/// has come, or one that a program wants to send, of which nothing is certain.
template <typename Use>
void for_each_control(const msghdr& message, Use use) {
  auto* const whole = const_cast<msghdr*>(&message);  // CMSG_NXTHDR only reads it.
  const auto* const end =
      static_cast<const std::byte*>(message.msg_control) + message.msg_controllen;
  for (cmsghdr* one = CMSG_FIRSTHDR(whole); one != nullptr; one = CMSG_NXTHDR(whole, one)) {
    const auto room = static_cast<std::size_t>(end - reinterpret_cast<const std::byte*>(one));
    if (one->cmsg_len < CMSG_LEN(0) || one->cmsg_len > room) return;
    use(*one);
  }
}

/// Calls `use(fd)` for each descriptor beside a message, as above.
template <typename Use>
void for_each_descriptor(const msghdr& message, Use use) {
  for_each_control(message, [&](cmsghdr& one) {
    if (one.cmsg_level != SOL_SOCKET || one.cmsg_type != SCM_RIGHTS) return;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= one.cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(&one) + at, sizeof fd);
      use(fd);
    }
  });
}

/// Moves the descriptors beside a received message into `descriptors`, and closes those that have
/// no room there. Returns how many were moved.
std::size_t take_descriptors(const msghdr& message, std::span<UniqueFd> descriptors);

}  // namespace verbatim

#include "fabric/protocol/channel.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace verbatim::fabric::protocol {
namespace {

iovec piece_of(ByteSpan bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it.
}

}  // namespace

Result<Incoming> Receiver::receive(int fd, int flags) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control;
  iovec piece{buffer_.data(), buffer_.size()};
  // CMSG_SPACE would be room for two descriptors, and the second one would stay open.
  msghdr message{.msg_iov = &piece,
                 .msg_iovlen = 1,
                 .msg_control = control.data(),
                 .msg_controllen = CMSG_LEN(sizeof(int))};
  ssize_t length = 0;
  do {
    length = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && errno == EAGAIN && (flags & MSG_DONTWAIT) == 0) {
    return refuse(ETIMEDOUT, "the fabric's daemon does not answer");
  }
  if (length < 0) return refuse_errno("receiving from the fabric");
  Incoming incoming{ByteSpan(buffer_).first(static_cast<std::size_t>(length)), UniqueFd()};
  for (auto* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    incoming.descriptor.reset(received);
  }
  if (length == 0) return refuse(kClosed, "the fabric's daemon has closed the connection");
  if ((message.msg_flags & MSG_TRUNC) != 0) return refuse(EMSGSIZE, "a message is too long");
  return incoming;
}

Result<void> send_bytes(int fd, ByteSpan head, ByteSpan rest, int descriptor, int flags) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  std::array<iovec, 2> pieces{piece_of(head), piece_of(rest)};
  msghdr message{.msg_iov = pieces.data(), .msg_iovlen = rest.empty() ? 1u : 2u};
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  while (sendmsg(fd, &message, flags | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return refuse_errno("sending to the fabric");
  }
  return {};
}

template <typename T>
Result<void> send_mad(int fd, const T& message, ByteSpan datagram, int flags) {
  const ByteSpan head = std::as_bytes(std::span(&message, 1));
  if (datagram.size() <= kInlineBytes) return send_bytes(fd, head, datagram, -1, flags);
  const auto memfd = memfd_of(datagram);
  if (!memfd) return std::unexpected(memfd.error());
  return send_bytes(fd, head, {}, memfd->get(), flags);
}
template Result<void> send_mad(int fd, const SentMad& message, ByteSpan datagram, int flags);
template Result<void> send_mad(int fd, const ReceivedMad& message, ByteSpan datagram, int flags);

Result<std::vector<std::byte>> datagram_of(const MadMessage& message, const UniqueFd& memfd) {
  if (!message.is_inline()) return read_memfd(memfd.get(), message.record.length);
  return std::vector(message.inline_bytes.begin(), message.inline_bytes.end());
}

Result<UniqueFd> memfd_of(ByteSpan bytes) {
  UniqueFd memfd(memfd_create("verbatim-fabric", MFD_CLOEXEC));
  if (!memfd) return refuse_errno("memfd");
  for (std::size_t at = 0; at < bytes.size();) {
    const auto written =
        pwrite(memfd.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse_errno("memfd");
    at += static_cast<std::size_t>(written);
  }
  return memfd;
}

Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refuse_errno("socketpair");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<std::vector<std::byte>> read_memfd(int memfd, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size;) {
    const auto got = pread(memfd, bytes.data() + at, size - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse_errno("memfd");
    if (got == 0) return refuse(EPROTO, fmt::format("a file of {} bytes has only {}", size, at));
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace verbatim::fabric::protocol

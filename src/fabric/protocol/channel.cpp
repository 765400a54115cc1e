#include "fabric/protocol/channel.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::fabric::protocol {
namespace {

iovec piece_of(ByteSpan bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it.
}

}  // namespace

Result<Incoming> Receiver::receive(int fd, int flags) {
  const iovec piece{buffer_.data(), buffer_.size()};
  UniqueFd descriptor;
  const auto message = receive_message(fd, {&piece, 1}, {&descriptor, 1}, flags);
  if (!message && errno == EAGAIN && (flags & MSG_DONTWAIT) == 0) {
    return refuse(ETIMEDOUT, "the fabric's daemon does not answer");
  }
  if (!message) return refuse_errno("receiving from the fabric");
  if (message->bytes == 0) return refuse(kClosed, "the fabric's daemon has closed the connection");
  if (message->is_cut) return refuse(EMSGSIZE, "a message is too long");
  return Incoming{ByteSpan(buffer_).first(message->bytes), std::move(descriptor)};
}

Result<void> send_bytes(int fd, ByteSpan head, ByteSpan rest, int descriptor, int flags) {
  const std::array<iovec, 2> pieces{piece_of(head), piece_of(rest)};
  if (!send_message(fd, pieces, {&descriptor, descriptor < 0 ? 0u : 1u}, flags)) {
    return refuse_errno("sending to the fabric");
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

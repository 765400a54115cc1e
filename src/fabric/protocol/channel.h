#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/protocol/decode.h"

/// Messages over a connection, with a descriptor beside them.
namespace verbatim::fabric::protocol {

/// The code of `receive` if the other side has closed the connection.
inline constexpr int kClosed = ECONNRESET;

/// One message. `bytes` are valid until the next one is received.
struct Incoming {
  ByteSpan bytes;
  UniqueFd descriptor;
};

class Receiver {
 public:
  Receiver() : buffer_(sizeof(SentMad) + kInlineBytes) {}
  /// EAGAIN: nothing is there; kClosed; EMSGSIZE: longer than any message.
  Result<Incoming> receive(int fd, int flags = 0);

 private:
  std::vector<std::byte> buffer_;
};

/// `head` and `rest` as one message. `descriptor`: -1 for none.
Result<void> send_bytes(int fd, ByteSpan head, ByteSpan rest, int descriptor, int flags);

template <typename T>
Result<void> send(int fd, const T& message, int descriptor = -1, int flags = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  return send_bytes(fd, std::as_bytes(std::span(&message, 1)), {}, descriptor, flags);
}

/// A SentMad or ReceivedMad with its datagram.
template <typename T>
Result<void> send_mad(int fd, const T& message, ByteSpan datagram, int flags = 0);

/// The bytes of a datagram that has come. EPROTO: the memfd is missing or has fewer.
Result<std::vector<std::byte>> datagram_of(const MadMessage& message, const UniqueFd& memfd);

/// A memfd with these bytes.
Result<UniqueFd> memfd_of(ByteSpan bytes);
/// Two ends that are connected with each other.
Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair();
/// `size` bytes of a memfd from its beginning. EPROTO: it has fewer.
Result<std::vector<std::byte>> read_memfd(int memfd, std::size_t size);

/// Waits for an answer: an `Answer`, or why it is refused. `descriptor` gets what is beside it.
template <typename Answer>
Result<Answer> await(int fd, UniqueFd* descriptor = nullptr) {
  Receiver receiver;
  auto incoming = receiver.receive(fd);
  if (!incoming) return std::unexpected(incoming.error());
  if (auto refusal = decode<Refusal>(incoming->bytes)) {
    return refuse(refusal->code, std::string(text_of(refusal->text)));
  }
  if (descriptor != nullptr) *descriptor = std::move(incoming->descriptor);
  return decode<Answer>(incoming->bytes);
}

template <typename Answer, typename Request>
Result<Answer> ask(int fd, const Request& request, UniqueFd* descriptor = nullptr) {
  if (auto sent = send(fd, request); !sent) return std::unexpected(sent.error());
  return await<Answer>(fd, descriptor);
}

/// Asks over an open port. The answer comes over a socket of its own, so that no thread takes it
/// that waits for datagrams.
template <typename Answer, typename Request>
Result<Answer> ask_beside(int port, const Request& request) {
  auto ends = make_socket_pair();
  if (!ends) return std::unexpected(ends.error());
  if (auto sent = send(port, request, ends->second.get()); !sent) {
    return std::unexpected(sent.error());
  }
  ends->second.reset();
  return await<Answer>(ends->first.get());
}

}  // namespace verbatim::fabric::protocol

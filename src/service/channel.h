#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::service {

/// A protocol between our own programs. Both sides must have the same version.
struct Protocol {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
};

/// A message that has come.
struct Incoming {
  std::uint16_t type = 0;
  std::vector<std::byte> bytes;  // Without the header.
  std::vector<UniqueFd> descriptors;
};

/// Messages with descriptors beside them over a SOCK_SEQPACKET socket. Each begins with eight bytes
/// in the machine's order: magic, version, type. Nothing is cut: what does not fit is refused.
class Channel {
 public:
  static constexpr std::size_t kBytesMax = 64 << 10;  // Of a message, with its header.
  static constexpr std::size_t kDescriptorsMax = 64;
  /// What waits for a side that does not read. Its descriptors count kBytesMax each.
  static constexpr std::size_t kQueueBytesMax = 4 << 20;

  Channel(UniqueFd fd, Protocol protocol) : fd_(std::move(fd)), protocol_(protocol) {}

  int fd() const { return fd_.get(); }
  /// One message. EAGAIN: none has come (MSG_DONTWAIT, or the socket's time-out); ECONNRESET: the
  /// other side has closed; EPROTO: no message of this protocol; EPROTONOSUPPORT: of another
  /// version; EMFILE: this process has no room for its descriptors.
  Result<Incoming> receive(int flags = 0);

  /// Sends without waiting, or keeps what the socket has no room for: then `wants_to_send`, and
  /// `flush` goes on when the socket is writable. ENOBUFS: too much waits already, EMSGSIZE: the
  /// message is too long. ECONNRESET, EPIPE: the other side has closed.
  Result<void> send(std::uint16_t type, ByteSpan bytes, std::span<const int> descriptors = {});
  Result<void> flush();
  bool wants_to_send() const { return !queue_.empty(); }

  /// Sends and waits for the socket's room: for commands, which have one question.
  Result<void> send_and_wait(std::uint16_t type, ByteSpan bytes,
                             std::span<const int> descriptors = {});

 private:
  struct Waiting {
    std::vector<std::byte> bytes;  // With the header.
    std::vector<UniqueFd> descriptors;
    std::size_t cost() const { return bytes.size() + descriptors.size() * kBytesMax; }
  };
  std::vector<std::byte> encoded(std::uint16_t type, ByteSpan bytes) const;

  UniqueFd fd_;
  Protocol protocol_;
  std::deque<Waiting> queue_;
  std::size_t queued_bytes_ = 0;
};

/// Two connected channels of this process, for tests and children.
Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair();

}  // namespace verbatim::service

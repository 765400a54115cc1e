#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::link {

/// A connected TCP socket, and the pending bytes of both directions (iWARP). It never blocks. One
/// thread at a time.
class TcpStream {
 public:
  /// Pending bytes in each direction at most.
  static constexpr std::size_t kBufferBytes = 256 << 10;
  /// References after one `reserve` at most.
  static constexpr std::size_t kReferencesMax = 62;
  /// Pieces of pending bytes, copied and referenced ones.
  static constexpr std::size_t kPiecesMax = 4 * (kReferencesMax + 2);

  /// Takes a connected socket; EINVAL for any other.
  static Result<TcpStream> adopt(UniqueFd fd);

  int fd() const { return fd_.get(); }
  /// Returns the payload of one TCP segment now; an FPDU should fit in it (RFC 5044, section 5).
  std::size_t segment_bytes() const;

  /// Returns room for the next bytes to send; empty if there is none until `send` has sent some.
  MutableByteSpan reserve(std::size_t bytes);
  /// The bytes were written to the reserved room.
  void commit(std::size_t bytes);
  /// Appends `bytes` to what is sent next, without copying (within the room that `reserve` has
  /// found). They must stay valid until `send` or `copy_referenced`.
  void append_by_reference(ByteSpan bytes);
  /// Sends pending bytes as far as the socket takes them. Returns 0, or an errno value: EAGAIN if
  /// some are left, or the error that has ended the connection; then no references are left.
  int send();
  /// Copies all bytes that were appended by reference and are not sent yet.
  void copy_referenced();
  bool has_sent_all() const { return waiting_ == 0; }

  /// Reads received bytes as far as there is room. Returns 0; EAGAIN if there are none; ENODATA if
  /// the peer has closed its side; or the error that has ended the connection.
  int receive();
  /// Returns true if the last `receive` may have left bytes in the socket.
  bool may_have_more() const { return may_have_more_; }
  /// Bytes that were received and not consumed.
  MutableByteSpan arrived() { return {&in_[taken_], arrived_ - taken_}; }
  void consume(std::size_t bytes) { taken_ += bytes; }

  /// Sends no more; the peer can read everything sent before.
  void shut_down();
  /// Resets the connection: the peer gets an error, and none of the pending bytes.
  void reset();

 private:
  TcpStream() = default;
  void add(ByteSpan bytes);
  void on_sent(std::size_t bytes);

  UniqueFd fd_;
  std::unique_ptr<std::byte[]> out_, spare_;
  std::size_t end_ = 0;  // End of the bytes written to `out_`.
  // Pending pieces in order: parts of `out_` and references.
  std::array<iovec, kPiecesMax> pieces_{};
  std::size_t first_ = 0, count_ = 0;
  std::size_t waiting_ = 0;  // Sum of their bytes.
  bool has_references_ = false;
  std::unique_ptr<std::byte[]> in_;
  std::size_t taken_ = 0, arrived_ = 0;
  bool may_have_more_ = false;
};

}  // namespace verbatim::link

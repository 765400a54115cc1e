#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::link {

/// A connected TCP socket, and the bytes that wait on its two sides (iWARP). It never blocks. One
/// thread at a time.
class TcpStream {
 public:
  /// What waits on each side at most.
  static constexpr std::size_t kBufferBytes = 256 << 10;
  /// What is borrowed behind one `reserve` at most.
  static constexpr std::size_t kReferencesMax = 62;
  /// Of what waits, own bytes and borrowed ones.
  static constexpr std::size_t kPiecesMax = 4 * (kReferencesMax + 2);

  /// Takes a connected socket: EINVAL for another.
  static Result<TcpStream> adopt(UniqueFd fd);

  int fd() const { return fd_.get(); }
  /// What one TCP segment carries now: an FPDU should fit (RFC 5044, section 5).
  std::size_t segment_bytes() const;

  /// Room for the next bytes to send; empty where there is none before `send` has sent some.
  MutableByteSpan reserve(std::size_t bytes);
  /// They are there.
  void commit(std::size_t bytes);
  /// The next bytes to send are these, where they lie: within what `reserve` has found room for.
  /// They stay until `send` or `copy_referenced`.
  void append_by_reference(ByteSpan bytes);
  /// Sends what waits, as far as the socket takes it. Else an errno value: EAGAIN where some is
  /// left, or what has ended the connection. Nothing is borrowed then.
  int send();
  /// What is borrowed waits as a copy from now on.
  void copy_referenced();
  bool has_sent_all() const { return waiting_ == 0; }

  /// Reads what has come, as far as there is room. 0, EAGAIN: nothing; or what has ended the
  /// connection; ENODATA: the peer sends no more.
  int receive();
  /// The last `receive` has left something, perhaps.
  bool may_have_more() const { return may_have_more_; }
  /// What has come and is not consumed.
  MutableByteSpan arrived() { return {&in_[taken_], arrived_ - taken_}; }
  void consume(std::size_t bytes) { taken_ += bytes; }

  /// No more leaves; the peer reads to the end of what has.
  void shut_down();
  /// The peer reads of an error, and nothing of what waits.
  void reset();

 private:
  TcpStream() = default;
  void add(ByteSpan bytes);
  void on_sent(std::size_t bytes);

  UniqueFd fd_;
  std::unique_ptr<std::byte[]> out_, spare_;
  std::size_t end_ = 0;  // Of what has been written into `out_`.
  // What waits, in its order: bytes of `out_` and borrowed ones.
  std::array<iovec, kPiecesMax> pieces_{};
  std::size_t first_ = 0, count_ = 0;
  std::size_t waiting_ = 0;  // Bytes of all.
  bool has_references_ = false;
  std::unique_ptr<std::byte[]> in_;
  std::size_t taken_ = 0, arrived_ = 0;
  bool may_have_more_ = false;
};

}  // namespace verbatim::link

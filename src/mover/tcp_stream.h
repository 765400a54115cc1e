#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace verbatim::mover {

/// A connected TCP socket, and the bytes that wait on its two sides (iWARP). It never blocks. One
/// thread at a time.
class TcpStream {
 public:
  /// What waits on each side at most.
  static constexpr std::size_t kBufferBytes = 256 << 10;

  /// Takes a connected socket: EINVAL for another.
  static Result<TcpStream> adopt(UniqueFd fd);

  int fd() const { return fd_.get(); }
  /// What one TCP segment carries now: an FPDU should fit (RFC 5044, section 5).
  std::size_t segment_bytes() const;

  /// Room for the next bytes to send; empty where there is none before `send` has sent some.
  MutableByteSpan reserve(std::size_t bytes);
  /// They are there.
  void commit(std::size_t bytes) { end_ += bytes; }
  /// Sends what waits, as far as the socket takes it. Else an errno value: EAGAIN where some is
  /// left, or what has ended the connection.
  int send();
  bool has_sent_all() const { return begin_ == end_; }

  /// Reads what has come, as far as there is room. 0, EAGAIN: nothing; or what has ended the
  /// connection; ENODATA: the peer sends no more.
  int receive();
  /// What has come and is not consumed.
  MutableByteSpan arrived() { return {&in_[taken_], arrived_ - taken_}; }
  void consume(std::size_t bytes) { taken_ += bytes; }

  /// No more leaves; the peer reads to the end of what has.
  void shut_down();
  /// The peer reads of an error, and nothing of what waits.
  void reset();

 private:
  TcpStream() = default;

  UniqueFd fd_;
  std::unique_ptr<std::byte[]> out_;
  std::size_t begin_ = 0, end_ = 0;
  std::unique_ptr<std::byte[]> in_;
  std::size_t taken_ = 0, arrived_ = 0;
};

}  // namespace verbatim::mover

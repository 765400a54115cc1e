#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "fabric/trunk/session.h"

namespace verbatim::fabric {

/// A trunk's UDP socket. Datagrams of one size go to the kernel as one, which it segments
/// (UDP_SEGMENT), and come as one (UDP_GRO): that is what makes a trunk fast. Larger datagrams than
/// the path's MTU go one by one, in IP fragments.
class TrunkSocket {
 public:
  /// EADDRINUSE, EADDRNOTAVAIL...: what the kernel says of the address.
  static Result<TrunkSocket> open(const SocketAddress& local);
  int fd() const { return fd_.get(); }
  const SocketAddress& local() const { return local_; }

  /// Sends the datagrams that `next(control)` returns (`Session::next_datagram`), until there is
  /// none. What the kernel does not take is lost.
  template <typename Next>
  void send_all(Next next) {
    while (const auto datagram =
               next(MutableByteSpan(control_[next_control_++ % control_.size()]))) {
      add(*datagram);
    }
    flush();
  }
  /// Calls `sink(bytes, from)` for datagrams that have come; some may be left.
  template <typename Sink>
  void receive(Sink sink) {
    for (int reads = 0; reads < kReadsOfATurn; ++reads) {
      const auto read = read_some();
      if (!read) return;
      for (std::size_t at = 0; at < read->bytes; at += read->segment) {
        sink(ByteSpan(*buffer_).subspan(at, std::min(read->segment, read->bytes - at)), read->from);
      }
    }
  }

 private:
  /// One call to the kernel takes no more.
  static constexpr std::size_t kBatchBytes = 64'000;
  static constexpr std::size_t kSegmentsMax = 64;
  static constexpr std::size_t kBufferBytes = 65'536;
  static constexpr int kReadsOfATurn = 16;

  struct Read {
    std::size_t bytes;
    std::size_t segment;
    SocketAddress from;
  };

  TrunkSocket(UniqueFd fd, const SocketAddress& local)
      : fd_(std::move(fd)),
        local_(local),
        buffer_(std::make_unique<std::array<std::byte, kBufferBytes>>()) {}
  void add(const trunk::Session::Outgoing& datagram);
  void flush();
  bool send_segmented();
  std::optional<Read> read_some();

  UniqueFd fd_;
  SocketAddress local_;
  std::unique_ptr<std::array<std::byte, kBufferBytes>> buffer_;  // Of what is received.
  InplaceVector<iovec, kSegmentsMax> batch_;  // Datagrams of one size; the last may be shorter.
  std::size_t batch_bytes_ = 0;
  SocketAddress to_;
  /// For datagrams that lie nowhere else: more than a batch has, one after the other.
  std::array<std::array<std::byte, trunk::kControlBytesMax>, kSegmentsMax + 1> control_{};
  std::size_t next_control_ = 0;
  bool can_segment_ = true;
};

}  // namespace verbatim::fabric

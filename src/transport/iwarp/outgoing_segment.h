#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "transport/work.h"
#include "wire/iwarp/ddp.h"
#include "wire/iwarp/rdmap.h"

namespace verbatim::transport::iwarp {

/// Payload that RDMAP itself defines: a request, or the reason of a Terminate.
class SegmentBody {
 public:
  /// A Terminate contains the length and the header of a segment, and the Read Request in it: as
  /// long as an atomic request, the longest of all.
  static constexpr std::size_t kMax = wire::RdmapAtomicRequest::kSize;
  static_assert(kMax >= wire::RdmapTerminate::kSize + wire::RdmapTerminate::kLengthBytes +
                            wire::Ddp::kUntaggedSize + wire::RdmapReadRequest::kSize);

  void clear() { size_ = 0; }
  ByteSpan bytes() const { return std::span(bytes_).first(size_); }
  /// Returns the next `N` bytes, to be written.
  template <std::size_t N>
  std::span<std::byte, N> grow() {
    return std::span<std::byte, N>(grow(N));
  }
  MutableByteSpan grow(std::size_t count) {
    const auto added = std::span(bytes_).subspan(size_, count);
    size_ += count;
    return added;
  }

 private:
  std::array<std::byte, kMax> bytes_;
  std::size_t size_ = 0;
};

/// A DDP segment to send: the header, followed by `body` or `payload`.
struct OutgoingSegment {
  wire::Ddp header;
  SegmentBody body;
  PayloadSource payload;

  std::size_t bytes() const { return header.size() + body.bytes().size() + payload.length; }
};

}  // namespace verbatim::transport::iwarp

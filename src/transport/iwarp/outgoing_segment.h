#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "transport/work.h"
#include "wire/iwarp/ddp.h"
#include "wire/iwarp/rdmap.h"

namespace verbatim::transport::iwarp {

/// RDMAP's own payload of a segment: what is asked for, or why the stream ends.
class SegmentBody {
 public:
  /// A Terminate with the length and the header of the segment that it is about, and the read
  /// request in it: as long as an atomic request, the longest of all.
  static constexpr std::size_t kMax = wire::RdmapAtomicRequest::kSize;
  static_assert(kMax >= wire::RdmapTerminate::kSize + wire::RdmapTerminate::kLengthBytes +
                            wire::Ddp::kUntaggedSize + wire::RdmapReadRequest::kSize);

  void clear() { size_ = 0; }
  ByteSpan bytes() const { return std::span(bytes_).first(size_); }
  /// The next `N` bytes, to be written.
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

/// A DDP segment to send: the header, then `body` or `payload`.
struct OutgoingSegment {
  wire::Ddp header;
  SegmentBody body;
  PayloadSource payload;

  std::size_t bytes() const { return header.size() + body.bytes().size() + payload.length; }
};

}  // namespace verbatim::transport::iwarp

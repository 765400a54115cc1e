#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "ulp/ipoib/offload/offload_header.h"

namespace verbatim::ulp::ipoib {

/// Merges segments of one TCP connection that come one after the other, as Linux's GRO does, into
/// one packet for the kernel. Their checksums are verified: the kernel does not look again. Their
/// payloads stay where they are.
///
///     while it does not take a packet: `take` what there is, and write that; then try again, or
///     write the packet as it is
class Merge {
 public:
  static constexpr std::size_t kBytesMax = 65535, kSegmentsMax = 64;

  /// True: the packet is in it, and stays valid until it is taken. Not taken: what does not follow,
  /// and what is no plain segment.
  bool add(ByteSpan packet);
  bool is_empty() const { return parts_.empty(); }
  /// Nothing more will follow.
  bool is_full() const { return is_full_; }

  struct Whole {
    OffloadHeader header;
    std::span<const ByteSpan> parts;  // Its bytes, until the next `add`.
  };
  Whole take();

 private:
  struct Parts;
  static constexpr std::size_t kHeaderBytesMax = 100;  // IPv6's and TCP's, this with all options.
  void begin(ByteSpan packet, const Parts& parts);
  bool follows(ByteSpan packet, const Parts& parts) const;
  void finish_header();

  std::array<std::byte, kHeaderBytesMax> header_;  // Of the first, and then of the whole.
  InplaceVector<ByteSpan, 1 + kSegmentsMax> parts_, taken_;
  std::size_t bytes_ = 0;
  std::size_t transport_at_ = 0, header_bytes_ = 0;
  std::size_t segment_bytes_ = 0;  // The first one's payload.
  std::uint32_t next_sequence_ = 0;
  bool is_full_ = false;
};

}  // namespace verbatim::ulp::ipoib

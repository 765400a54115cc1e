#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ulp/ipoib/offload/offload_header.h"

namespace verbatim::ulp::ipoib {

/// Merges segments of one TCP connection that come one after the other, as Linux's GRO does, into
/// one packet for the kernel. Their checksums are verified: the kernel does not look again.
///
///     while it does not take a packet: `take` what there is, and write that; then try again, or
///     write the packet as it is
class Merge {
 public:
  static constexpr std::size_t kBytesMax = 65535;

  /// True: the packet is in it. Not taken: what does not follow, and what is no plain segment.
  bool add(ByteSpan packet);
  bool is_empty() const { return count_ == 0; }
  /// Nothing more will follow.
  bool is_full() const { return is_full_; }

  struct Whole {
    OffloadHeader header;
    ByteSpan packet;  // Until the next `add`.
  };
  Whole take();

 private:
  struct Parts;
  bool begin(ByteSpan packet, const Parts& parts);
  bool follows(ByteSpan packet, const Parts& parts) const;

  std::vector<std::byte> bytes_;
  std::size_t transport_at_ = 0, header_bytes_ = 0;
  std::size_t segment_bytes_ = 0;  // The first one's payload.
  std::uint32_t next_sequence_ = 0;
  std::size_t count_ = 0;
  bool is_full_ = false;
};

}  // namespace verbatim::ulp::ipoib

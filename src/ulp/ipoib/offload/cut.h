#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ulp/ipoib/offload/offload_header.h"

namespace verbatim::ulp::ipoib {

/// Completes a checksum that the kernel has begun. False: it cannot be where the header says.
bool complete_checksum(const OffloadHeader& header, MutableByteSpan packet);

/// A large packet of the kernel's as the segments that it stands for (TSO, USO): each has a header
/// of its own, and a part of the packet's payload.
class Cut {
 public:
  /// IP's and TCP's, both with options.
  static constexpr std::size_t kHeaderBytesMax = 128;
  /// Of a packet of 64 KiB with the smallest MSS that Linux uses for IPv4 (RFC 1122).
  static constexpr std::size_t kSegmentsMax = 128;

  /// Nothing for what cannot be cut so. `packet` outlives it.
  static std::optional<Cut> of(const OffloadHeader& header, ByteSpan packet);

  std::size_t count() const { return count_; }
  /// Of each segment's header.
  std::size_t header_bytes() const { return header_bytes_; }
  /// Writes the header, and returns the payload, a part of the packet's.
  ByteSpan segment(std::size_t i, MutableByteSpan header) const;
  /// The longest of them.
  std::size_t segment_bytes() const { return header_bytes_ + payload_bytes_; }

 private:
  void finish_ip(MutableByteSpan header, std::size_t i, std::size_t bytes) const;
  void finish_tcp(MutableByteSpan tcp, std::size_t i) const;
  void finish_checksum(MutableByteSpan header, ByteSpan payload) const;

  ByteSpan packet_;
  bool is_ipv4_ = false, is_udp_ = false;
  std::size_t transport_at_ = 0;   // TCP's or UDP's header.
  std::size_t header_bytes_ = 0;   // IP's and that.
  std::size_t payload_bytes_ = 0;  // Of each but the last.
  std::size_t count_ = 0;
};

}  // namespace verbatim::ulp::ipoib

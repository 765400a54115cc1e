#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace verbatim::offload {

enum class LargeKind : std::uint8_t { kNone, kTcpIpv4, kTcpIpv6, kUdp };

/// What a frame's sender left to the card: its checksum, and to be cut (as virtio_net_hdr says).
struct FrameNote {
  LargeKind kind = LargeKind::kNone;
  bool needs_checksum = false;  // Its field has the sum of the pseudo header.
  std::uint16_t segment_bytes = 0;
  std::uint16_t checksum_start = 0;
  std::uint16_t checksum_offset = 0;  // From there.
  bool is_plain() const { return kind == LargeKind::kNone && !needs_checksum; }
};

/// The packets that a frame stands for, as they would be on the wire: with their checksums, and
/// cut.
class Segments {
 public:
  /// Nothing: the frame is not what the note says.
  static std::optional<Segments> of(ByteSpan frame, const FrameNote& note);

  std::uint32_t count() const { return count_; }
  /// Of all packets together.
  std::uint64_t bytes() const { return frame_.size() + std::uint64_t{count_ - 1} * headers_; }

  /// Writes the next packet and returns its size; 0: there is none, or no room for it.
  std::size_t next(MutableByteSpan out);

 private:
  Segments(ByteSpan frame, const FrameNote& note) : frame_(frame), note_(note) {}
  bool find_headers();
  void finish_ip(MutableByteSpan packet) const;
  void finish_transport(MutableByteSpan packet, std::size_t payload_at) const;

  ByteSpan frame_;
  FrameNote note_;
  bool is_ipv4_ = false;
  std::size_t ip_at_ = 0;
  std::size_t headers_ = 0;  // Bytes before the payload.
  std::uint32_t count_ = 1;
  std::uint32_t written_ = 0;
};

/// The Internet checksum (RFC 1071), not yet complemented, added to `sum`.
std::uint64_t add_words(ByteSpan bytes, std::uint64_t sum = 0);
std::uint16_t fold(std::uint64_t sum);

}  // namespace verbatim::offload

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "wire/crc32c.h"
#include "wire/error.h"

/// MPA (RFC 5044, RFC 6581): the framing of DDP segments in a TCP stream, and the Request and Reply
/// frames that negotiate it.
namespace verbatim::wire {

/// Enhanced connection set-up (RFC 6581, section 4): the first 4 bytes of the private data.
///
///     byte   0-1 (1, 1, 14)           2-3 (1, 1, 14)
///          +----+------+------------+-------+------+-----------+
///          | A: | B:   | inbound    | C:    | D:   | outbound  |
///          | p2p| SEND | read depth | WRITE | READ | read depth|
///          +----+------+------------+-------+------+-----------+
struct MpaEnhanced {
  static constexpr std::size_t kSize = 4;
  static constexpr std::uint16_t kDepthMask = 0x3fff;
  bool peer_to_peer = false;
  // Which empty message the initiator may send first, to show that it is ready (RTR).
  bool ready_by_send = false;
  bool ready_by_write = false;
  bool ready_by_read = false;
  std::uint16_t inbound_reads = 0;   // IRD, 14 bits.
  std::uint16_t outbound_reads = 0;  // ORD, 14 bits.
  friend bool operator==(const MpaEnhanced&, const MpaEnhanced&) = default;
};

/// The start of a Request or Reply frame.
///
///     byte   0-15               16 (1, 1, 1, 1, 4)   17         18-19
///          +------------------+--------------------+----------+--------------+
///          | "MPA ID Req      | M, C, R, S, 0      | revision | private data |
///          |  Frame" or "Rep" |                    |          | length       |
///          +------------------+--------------------+----------+--------------+
struct MpaFrame {
  static constexpr std::size_t kSize = 20;
  static constexpr std::size_t kPrivateDataMax = 512;
  bool is_reply = false;
  bool wants_markers = false;  // In the stream that its sender receives.
  bool wants_crc = false;      // A CRC is used if either side wants one.
  bool is_rejection = false;   // Reply frames only.
  bool is_enhanced = false;    // Revision 2: the private data begins with MpaEnhanced.
  std::uint8_t revision = 1;   // 1 or 2.
  std::uint16_t private_data_bytes = 0;
  friend bool operator==(const MpaFrame&, const MpaFrame&) = default;
};

std::expected<MpaFrame, WireError> decode_mpa_frame(
    std::span<const std::byte, MpaFrame::kSize> bytes);
void encode(const MpaFrame& frame, std::span<std::byte, MpaFrame::kSize> out);
MpaEnhanced decode_mpa_enhanced(std::span<const std::byte, MpaEnhanced::kSize> bytes);
void encode(const MpaEnhanced& enhanced, std::span<std::byte, MpaEnhanced::kSize> out);

/// An FPDU without markers: the segment's length (2 bytes), the segment, padding to a multiple of
/// four, and the CRC32c of these, least significant byte first (zero if neither side wants one).
inline constexpr std::size_t kFpduLengthBytes = 2;
inline constexpr std::size_t kFpduCrcBytes = 4;
/// Size of the padding, and of padding and CRC, after a segment.
constexpr std::size_t fpdu_padding(std::size_t segment_bytes) {
  return -(kFpduLengthBytes + segment_bytes) & 3;
}
constexpr std::size_t fpdu_bytes(std::size_t segment_bytes) {
  return kFpduLengthBytes + segment_bytes + fpdu_padding(segment_bytes) + kFpduCrcBytes;
}

/// Returns the size of the next FPDU in the stream; nothing if its length field is incomplete.
std::optional<std::size_t> next_fpdu_bytes(ByteSpan stream);
/// Returns the segment of a complete FPDU of `next_fpdu_bytes`.
ByteSpan segment_of(ByteSpan fpdu);
/// Writes the length field and the padding around a segment that is already in `fpdu`, at
/// kFpduLengthBytes. `fpdu` has `fpdu_bytes(segment_bytes)`. The CRC is set to zero.
void enclose_fpdu(MutableByteSpan fpdu, std::size_t segment_bytes);
/// The same for an FPDU in pieces: `front` is its start, `end` the bytes after the segment.
void enclose_fpdu(MutableByteSpan front, std::size_t segment_bytes, MutableByteSpan end);
/// The CRC of an FPDU covers all bytes before it, with the markers.
bool has_right_crc(ByteSpan fpdu);
void set_crc(MutableByteSpan fpdu);

}  // namespace verbatim::wire

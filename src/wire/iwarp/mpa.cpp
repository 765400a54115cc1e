#include "wire/iwarp/mpa.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace verbatim::wire {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr std::size_t kFlagsAt = 16;
constexpr std::size_t kRevisionAt = 17;
constexpr std::size_t kLengthAt = 18;
constexpr std::uint8_t kMarkers = 0x80, kCrc = 0x40, kReject = 0x20, kEnhanced = 0x10;
constexpr std::uint16_t kFirst = 0x8000, kSecond = 0x4000;

std::uint32_t crc_of(ByteSpan bytes) {
  Crc32c crc;
  crc.update(bytes);
  return crc.value();
}

}  // namespace

std::expected<MpaFrame, WireError> decode_mpa_frame(
    std::span<const std::byte, MpaFrame::kSize> bytes) {
  const auto is = [&bytes](std::string_view key) {
    return std::memcmp(bytes.data(), key.data(), key.size()) == 0;
  };
  const bool is_reply = is(kReplyKey);
  if (!is_reply && !is(kRequestKey)) return std::unexpected(WireError::mpa_key);
  const auto flags = std::to_integer<std::uint8_t>(bytes[kFlagsAt]);
  MpaFrame frame{.is_reply = is_reply,
                 .wants_markers = (flags & kMarkers) != 0,
                 .wants_crc = (flags & kCrc) != 0,
                 .is_rejection = is_reply && (flags & kReject) != 0,
                 .is_enhanced = (flags & kEnhanced) != 0,
                 .revision = std::to_integer<std::uint8_t>(bytes[kRevisionAt]),
                 .private_data_bytes = load_be<std::uint16_t>(&bytes[kLengthAt])};
  if (frame.revision != 1 && frame.revision != 2) return std::unexpected(WireError::mpa_revision);
  frame.is_enhanced &= frame.revision == 2;  // A reserved bit of revision 1.
  const bool is_long_enough = !frame.is_enhanced || frame.private_data_bytes >= MpaEnhanced::kSize;
  if (frame.private_data_bytes > MpaFrame::kPrivateDataMax || !is_long_enough) {
    return std::unexpected(WireError::mpa_length);
  }
  return frame;
}

void encode(const MpaFrame& frame, std::span<std::byte, MpaFrame::kSize> out) {
  const std::string_view key = frame.is_reply ? kReplyKey : kRequestKey;
  std::memcpy(out.data(), key.data(), key.size());
  out[kFlagsAt] = static_cast<std::byte>(
      (frame.wants_markers ? kMarkers : 0) | (frame.wants_crc ? kCrc : 0) |
      (frame.is_rejection ? kReject : 0) | (frame.is_enhanced ? kEnhanced : 0));
  out[kRevisionAt] = static_cast<std::byte>(frame.revision);
  store_be(&out[kLengthAt], frame.private_data_bytes);
}

MpaEnhanced decode_mpa_enhanced(std::span<const std::byte, MpaEnhanced::kSize> bytes) {
  const auto inbound = load_be<std::uint16_t>(&bytes[0]);
  const auto outbound = load_be<std::uint16_t>(&bytes[2]);
  return {.peer_to_peer = (inbound & kFirst) != 0,
          .ready_by_send = (inbound & kSecond) != 0,
          .ready_by_write = (outbound & kFirst) != 0,
          .ready_by_read = (outbound & kSecond) != 0,
          .inbound_reads = static_cast<std::uint16_t>(inbound & MpaEnhanced::kDepthMask),
          .outbound_reads = static_cast<std::uint16_t>(outbound & MpaEnhanced::kDepthMask)};
}

void encode(const MpaEnhanced& enhanced, std::span<std::byte, MpaEnhanced::kSize> out) {
  const auto word = [](bool first, bool second, std::uint16_t depth) {
    return static_cast<std::uint16_t>((first ? kFirst : 0) | (second ? kSecond : 0) |
                                      (depth & MpaEnhanced::kDepthMask));
  };
  store_be(&out[0], word(enhanced.peer_to_peer, enhanced.ready_by_send, enhanced.inbound_reads));
  store_be(&out[2], word(enhanced.ready_by_write, enhanced.ready_by_read, enhanced.outbound_reads));
}

std::optional<std::size_t> next_fpdu_bytes(ByteSpan stream) {
  if (stream.size() < kFpduLengthBytes) return std::nullopt;
  return fpdu_bytes(load_be<std::uint16_t>(stream.data()));
}

ByteSpan segment_of(ByteSpan fpdu) {
  return fpdu.subspan(kFpduLengthBytes, load_be<std::uint16_t>(fpdu.data()));
}

void enclose_fpdu(MutableByteSpan fpdu, std::size_t segment_bytes) {
  enclose_fpdu(fpdu, segment_bytes, fpdu.subspan(kFpduLengthBytes + segment_bytes));
}

void enclose_fpdu(MutableByteSpan front, std::size_t segment_bytes, MutableByteSpan end) {
  store_be(front.data(), static_cast<std::uint16_t>(segment_bytes));
  std::ranges::fill(end, std::byte{0});
}

bool has_right_crc(ByteSpan fpdu) {
  const ByteSpan covered = fpdu.first(fpdu.size() - kFpduCrcBytes);
  return crc_of(covered) == std::byteswap(load_be<std::uint32_t>(covered.data() + covered.size()));
}

void set_crc(MutableByteSpan fpdu) {
  const ByteSpan covered = fpdu.first(fpdu.size() - kFpduCrcBytes);
  store_be(&fpdu[covered.size()], std::byteswap(crc_of(covered)));
}

}  // namespace verbatim::wire

#include "wire/iwarp/ddp.h"

namespace verbatim::wire {
namespace {

constexpr std::uint8_t kTagged = 0x80;
constexpr std::uint8_t kLast = 0x40;
constexpr std::uint8_t kVersionMask = 0x03;

}  // namespace

bool is_tagged(ByteSpan segment) {
  return !segment.empty() && (std::to_integer<std::uint8_t>(segment[0]) & kTagged) != 0;
}

std::expected<Ddp, WireError> decode_ddp(ByteSpan segment) {
  if (segment.empty()) return std::unexpected(WireError::too_short);
  const auto control = std::to_integer<std::uint8_t>(segment[0]);
  if ((control & kVersionMask) != Ddp::kVersion) return std::unexpected(WireError::ddp_version);
  Ddp header{.tagged = (control & kTagged) != 0, .last = (control & kLast) != 0};
  if (segment.size() < header.size()) return std::unexpected(WireError::too_short);
  header.upper_control = std::to_integer<std::uint8_t>(segment[1]);
  if (header.tagged) {
    header.stag = load_be<std::uint32_t>(&segment[2]);
    header.offset = load_be<std::uint64_t>(&segment[6]);
    return header;
  }
  header.upper_word = load_be<std::uint32_t>(&segment[2]);
  header.queue = load_be<std::uint32_t>(&segment[6]);
  header.message_number = load_be<std::uint32_t>(&segment[10]);
  header.message_offset = load_be<std::uint32_t>(&segment[14]);
  return header;
}

void encode(const Ddp& header, MutableByteSpan out) {
  out[0] = static_cast<std::byte>((header.tagged ? kTagged : 0) | (header.last ? kLast : 0) |
                                  Ddp::kVersion);
  out[1] = static_cast<std::byte>(header.upper_control);
  if (header.tagged) {
    store_be(&out[2], header.stag);
    store_be(&out[6], header.offset);
    return;
  }
  store_be(&out[2], header.upper_word);
  store_be(&out[6], header.queue);
  store_be(&out[10], header.message_number);
  store_be(&out[14], header.message_offset);
}

}  // namespace verbatim::wire

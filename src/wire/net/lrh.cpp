#include "wire/net/lrh.h"

#include <utility>

namespace verbatim::wire {

std::expected<Lrh, WireError> decode_lrh(ByteSpan bytes) {
  if (bytes.size() < Lrh::kSize) return std::unexpected(WireError::too_short);
  const auto first = std::to_integer<std::uint8_t>(bytes[0]);
  const auto second = std::to_integer<std::uint8_t>(bytes[1]);
  if ((first & 0x0f) != 0) return std::unexpected(WireError::link_version);
  return Lrh{.virtual_lane = static_cast<std::uint8_t>(first >> 4),
             .service_level = static_cast<std::uint8_t>(second >> 4),
             .next = static_cast<Lrh::Next>(second & 0x03),
             .dlid = Lid{load_be<std::uint16_t>(&bytes[2])},
             .length_words = static_cast<std::uint16_t>(load_be<std::uint16_t>(&bytes[4]) & 0x07ff),
             .slid = Lid{load_be<std::uint16_t>(&bytes[6])}};
}

void encode(const Lrh& header, std::span<std::byte, Lrh::kSize> out) {
  out[0] = static_cast<std::byte>(header.virtual_lane << 4);
  out[1] = static_cast<std::byte>(header.service_level << 4 | std::to_underlying(header.next));
  store_be(&out[2], std::to_underlying(header.dlid));
  store_be(&out[4], static_cast<std::uint16_t>(header.length_words & 0x07ff));
  store_be(&out[6], std::to_underlying(header.slid));
}

}  // namespace verbatim::wire

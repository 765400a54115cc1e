#include "wire/net/grh.h"

#include <cstring>

namespace verbatim::wire {

std::expected<Grh, WireError> decode_grh(ByteSpan bytes) {
  if (bytes.size() < Grh::kSize) return std::unexpected(WireError::too_short);
  const auto first = load_be<std::uint32_t>(&bytes[0]);
  if (first >> 28 != 6) return std::unexpected(WireError::ip_version);
  Grh header;
  header.traffic_class = static_cast<std::uint8_t>(first >> 20);
  header.flow_label = first & 0xfffff;
  header.payload_length = load_be<std::uint16_t>(&bytes[4]);
  header.next_header = std::to_integer<std::uint8_t>(bytes[6]);
  header.hop_limit = std::to_integer<std::uint8_t>(bytes[7]);
  std::memcpy(header.source.bytes.data(), &bytes[8], 16);
  std::memcpy(header.destination.bytes.data(), &bytes[24], 16);
  return header;
}

void encode(const Grh& header, std::span<std::byte, Grh::kSize> out) {
  store_be(&out[0], 6u << 28 | static_cast<std::uint32_t>(header.traffic_class) << 20 |
                        (header.flow_label & 0xfffff));
  store_be(&out[4], header.payload_length);
  out[6] = static_cast<std::byte>(header.next_header);
  out[7] = static_cast<std::byte>(header.hop_limit);
  std::memcpy(&out[8], header.source.bytes.data(), 16);
  std::memcpy(&out[24], header.destination.bytes.data(), 16);
}

std::expected<GrhPacket, WireError> decode_grh_packet(MutableByteSpan payload) {
  const auto grh = decode_grh(payload);
  if (!grh) return std::unexpected(grh.error());
  if (grh->next_header != Grh::kNextIba) return std::unexpected(WireError::ip_protocol);
  const MutableByteSpan rest = payload.subspan(Grh::kSize);
  if (grh->payload_length > rest.size()) return std::unexpected(WireError::ip_length);
  return GrhPacket{*grh, rest.first(grh->payload_length)};
}

}  // namespace verbatim::wire

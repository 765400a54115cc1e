#include "wire/net/frame_checksum.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kIpv4ChecksumAt = 10;
constexpr std::size_t kTcpChecksumAt = 16;
constexpr std::size_t kUdpChecksumAt = 6;

/// A sum of 16-bit words in network byte order, before carries are added.
std::uint64_t sum(ByteSpan bytes) {
  std::uint64_t total = 0;
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) total += load_be<std::uint32_t>(&bytes[at]);
  for (; at + 2 <= bytes.size(); at += 2) total += load_be<std::uint16_t>(&bytes[at]);
  if (at < bytes.size()) total += std::to_integer<std::uint64_t>(bytes[at]) << 8;
  return total;
}

std::uint16_t folded(std::uint64_t total) {
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  return static_cast<std::uint16_t>(total);
}

constexpr std::uint16_t kAllOnes = 0xffff;  // The sum of data with a right checksum.

std::size_t ipv4_header_bytes(ByteSpan frame, const FrameLayers& layers) {
  return (std::to_integer<std::size_t>(frame[layers.ip_at]) & 0xf) * 4;
}

bool is_fragment(ByteSpan frame, const FrameLayers& layers) {
  if (!layers.has(kLayerIpv4)) return false;
  return (load_be<std::uint16_t>(&frame[layers.ip_at + 6]) & 0x3fff) != 0;
}

ByteSpan transport_of(ByteSpan frame, const FrameLayers& layers) {
  return frame.subspan(layers.transport_at, layers.ip_end - layers.transport_at);
}

/// The sum of the pseudo header and the transport layer.
std::uint64_t transport_sum(ByteSpan frame, const FrameLayers& layers) {
  const ByteSpan transport = transport_of(frame, layers);
  const bool is_ipv4 = layers.has(kLayerIpv4);
  const ByteSpan addresses =
      is_ipv4 ? frame.subspan(layers.ip_at + 12, 8) : frame.subspan(layers.ip_at + 8, 32);
  return sum(addresses) + layers.fields.protocol + transport.size() + sum(transport);
}

}  // namespace

bool checksums_valid(ByteSpan frame, const FrameLayers& layers) {
  if (!layers.is_whole || !layers.has_any(kLayerTcp | kLayerUdp) || is_fragment(frame, layers))
    return false;
  if (layers.has(kLayerIpv4)) {
    const ByteSpan header = frame.subspan(layers.ip_at, ipv4_header_bytes(frame, layers));
    if (folded(sum(header)) != kAllOnes) return false;
    const std::byte* const checksum = &frame[layers.transport_at + kUdpChecksumAt];
    if (layers.has(kLayerUdp) && load_be<std::uint16_t>(checksum) == 0) return true;
  }
  return folded(transport_sum(frame, layers)) == kAllOnes;
}

void fill_checksums(MutableByteSpan frame, const FrameLayers& layers) {
  if (layers.has(kLayerIpv4)) {
    std::byte* const checksum = &frame[layers.ip_at + kIpv4ChecksumAt];
    store_be<std::uint16_t>(checksum, 0);
    const ByteSpan header = frame.subspan(layers.ip_at, ipv4_header_bytes(frame, layers));
    store_be<std::uint16_t>(checksum, static_cast<std::uint16_t>(~folded(sum(header))));
  }
  if (!layers.is_whole || !layers.has_any(kLayerTcp | kLayerUdp) || is_fragment(frame, layers)) {
    return;
  }
  const bool is_udp = layers.has(kLayerUdp);
  std::byte* const checksum =
      &frame[layers.transport_at + (is_udp ? kUdpChecksumAt : kTcpChecksumAt)];
  store_be<std::uint16_t>(checksum, 0);
  auto value = static_cast<std::uint16_t>(~folded(transport_sum(frame, layers)));
  if (is_udp && value == 0) value = kAllOnes;  // Zero would mean "no checksum" (RFC 768).
  store_be<std::uint16_t>(checksum, value);
}

}  // namespace verbatim::wire

#include "wire/net/tunnel/tunnel.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kVxlanBytes = 8;
constexpr std::uint8_t kVxlanHasIdentifier = 0x08;
constexpr std::uint8_t kGeneveControl = 0x80;
constexpr std::size_t kGreBytes = 4;
constexpr std::uint16_t kGreChecksum = 0x8000;
constexpr std::uint16_t kGreRouting = 0x4000;
constexpr std::uint16_t kGreKey = 0x2000;
constexpr std::uint16_t kGreNumber = 0x1000;
constexpr std::uint16_t kGreVersion = 0x0007;

std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

}  // namespace

std::optional<TunnelHeader> decode_vxlan(ByteSpan payload) {
  if (payload.size() < kVxlanBytes || (byte(payload.data()) & kVxlanHasIdentifier) == 0) return {};
  return TunnelHeader{.kind = TunnelKind::kVxlan,
                      .id = load_be<std::uint32_t>(payload.data() + 4) >> 8,
                      .protocol = kTypeTransparentEthernet,
                      .bytes = kVxlanBytes};
}

std::optional<TunnelHeader> decode_geneve(ByteSpan payload) {
  if (payload.size() < kGeneveBytes) return {};
  const std::byte* const at = payload.data();
  const std::size_t bytes = kGeneveBytes + (byte(at) & 0x3fu) * 4u;
  if (byte(at) >> 6 != 0 || (byte(at + 1) & kGeneveControl) != 0 || payload.size() < bytes) {
    return {};
  }
  return TunnelHeader{.kind = TunnelKind::kGeneve,
                      .id = load_be<std::uint32_t>(at + 4) >> 8,
                      .protocol = load_be<std::uint16_t>(at + 2),
                      .bytes = bytes};
}

std::optional<TunnelHeader> decode_gre(ByteSpan payload) {
  if (payload.size() < kGreBytes) return {};
  const auto flags = load_be<std::uint16_t>(payload.data());
  if ((flags & (kGreRouting | kGreVersion)) != 0) return {};
  TunnelHeader header{.kind = TunnelKind::kGre,
                      .protocol = load_be<std::uint16_t>(payload.data() + 2),
                      .bytes = kGreBytes};
  if ((flags & kGreChecksum) != 0) header.bytes += 4;
  const std::size_t key_at = header.bytes;
  if ((flags & kGreKey) != 0) header.bytes += 4;
  if ((flags & kGreNumber) != 0) header.bytes += 4;
  if (payload.size() < header.bytes) return {};
  if ((flags & kGreKey) != 0) header.id = load_be<std::uint32_t>(payload.data() + key_at);
  return header;
}

}  // namespace verbatim::wire

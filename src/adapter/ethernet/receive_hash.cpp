#include "adapter/ethernet/receive_hash.h"

#include <cstring>

#include "base/assert.h"

namespace verbatim::adapter {
namespace {

struct HashedField {
  std::uint32_t field = 0;
  std::uint16_t layer = 0;
  std::size_t at = 0;  // Offset in FrameFields.
  std::size_t bytes = 0;
};

constexpr HashedField kHashedFields[] = {
    {kHashSourceIpv4, wire::kLayerIpv4, offsetof(wire::FrameFields, source_ip), 4},
    {kHashSourceIpv6, wire::kLayerIpv6, offsetof(wire::FrameFields, source_ip), 16},
    {kHashDestinationIpv4, wire::kLayerIpv4, offsetof(wire::FrameFields, destination_ip), 4},
    {kHashDestinationIpv6, wire::kLayerIpv6, offsetof(wire::FrameFields, destination_ip), 16},
    {kHashSourcePortTcp, wire::kLayerTcp, offsetof(wire::FrameFields, source_port), 2},
    {kHashSourcePortUdp, wire::kLayerUdp, offsetof(wire::FrameFields, source_port), 2},
    {kHashDestinationPortTcp, wire::kLayerTcp, offsetof(wire::FrameFields, destination_port), 2},
    {kHashDestinationPortUdp, wire::kLayerUdp, offsetof(wire::FrameFields, destination_port), 2},
    {kHashSpi, wire::kLayerEsp, offsetof(wire::FrameFields, spi), 4},
};

}  // namespace

std::uint32_t toeplitz(const std::array<std::uint8_t, kHashKeyBytes>& key, ByteSpan input) {
  VERBATIM_ASSERT(input.size() + 4 <= key.size());
  // The 32 bits of the key from the current input bit on; the key's next byte is shifted in.
  auto window = load_be<std::uint32_t>(reinterpret_cast<const std::byte*>(key.data()));
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::uint8_t next = i + 4 < key.size() ? key[i + 4] : 0;
    for (unsigned bit = 8; bit-- > 0;) {
      if ((std::to_integer<unsigned>(input[i]) >> bit & 1) != 0) hash ^= window;
      window = window << 1 | (next >> bit & 1u);
    }
  }
  return hash;
}

std::uint32_t hash_of(const ReceiveHash& hash, const wire::Frame& frame) {
  const wire::FrameLayers& layers = (hash.fields & kHashInner) != 0 ? frame.inner : frame.outer;
  const auto* const fields = reinterpret_cast<const std::byte*>(&layers.fields);
  std::array<std::byte, kHashKeyBytes - 4> input;
  std::size_t length = 0;
  for (const HashedField& hashed : kHashedFields) {
    if ((hash.fields & hashed.field) == 0 || !layers.has(hashed.layer)) continue;
    std::memcpy(&input[length], fields + hashed.at, hashed.bytes);
    length += hashed.bytes;
  }
  return toeplitz(hash.key, ByteSpan(input).first(length));
}

}  // namespace verbatim::adapter

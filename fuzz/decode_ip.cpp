// Any bytes as an IP packet with a UDP datagram, and as a GRH: the encoder writes an accepted
// header so that it decodes to the same value; a GRH, which has no checksum, byte for byte.
#include <array>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto grh = wire::decode_grh(bytes)) {
    std::array<std::byte, wire::Grh::kSize> out;
    encode(*grh, out);
    VERBATIM_ASSERT(std::memcmp(out.data(), data, out.size()) == 0);
  }
  std::vector<std::byte> again(bytes.begin(), bytes.end());
  if (const auto found = wire::decode_grh_packet(again)) {
    VERBATIM_ASSERT(found->packet.size() == found->grh.payload_length);
    VERBATIM_ASSERT(found->packet.size() <= size - wire::Grh::kSize);
  }
  const auto headers = wire::decode_ip_udp(bytes);
  if (!headers) return 0;
  wire::encode_ip_udp(*headers, again);
  VERBATIM_ASSERT(wire::decode_ip_udp(again) == headers);
  return 0;
}

// Any bytes as a transport packet: nothing outside is read, and an accepted packet encodes (except
// reserved bits) and decodes to the same value.

#include <algorithm>
#include <array>
#include <vector>

#include "base/assert.h"
#include "wire/ib/packet.h"
#include "wire/printer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto packet = wire::decode_packet(bytes);
  if (!packet) return 0;
  VERBATIM_ASSERT(!wire::describe(*packet).empty());

  std::array<std::byte, wire::kHeadersMaxBytes> headers;
  const std::size_t header_bytes = wire::encode_headers(packet->headers, headers);
  const std::size_t pad_count = packet->headers.bth.pad_count;
  VERBATIM_ASSERT(header_bytes + packet->payload.size() + pad_count == size);

  std::vector<std::byte> again(headers.begin(), headers.begin() + header_bytes);
  again.insert(again.end(), packet->payload.begin(), packet->payload.end());
  again.resize(size);
  const auto same = wire::decode_packet(again);
  VERBATIM_ASSERT(same && same->headers == packet->headers);
  VERBATIM_ASSERT(std::ranges::equal(same->payload, packet->payload));
  return 0;
}

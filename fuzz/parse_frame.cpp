// Any bytes as an Ethernet frame: parsing reads nothing outside, and all layers are inside.

#include "base/assert.h"
#include "wire/net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace verbatim;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const wire::Frame frame = wire::parse_frame(bytes);
  VERBATIM_ASSERT(frame.outer.has(wire::kLayerEthernet) == (size >= wire::kEthernetHeaderBytes));
  for (const wire::FrameLayers* layers : {&frame.outer, &frame.inner}) {
    VERBATIM_ASSERT(layers->ip_at <= layers->ip_end && layers->ip_end <= size);
    VERBATIM_ASSERT(layers->transport_at <= size);
    VERBATIM_ASSERT(!(layers->has(wire::kLayerIpv4) && layers->has(wire::kLayerIpv6)));
  }
  return 0;
}

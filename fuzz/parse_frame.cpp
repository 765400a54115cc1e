// Any bytes as an Ethernet frame: parsing reads nothing outside, and all layers are inside. A
// neighbour's message that is read can be written, and is the same again.
#include <array>
#include <vector>

#include "base/assert.h"
#include "wire/net/ethernet/neighbour_message.h"
#include "wire/net/ethernet/roce_frame.h"
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
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (const auto packet = wire::decode_roce_v2_frame(copy)) {
    VERBATIM_ASSERT(wire::owner_of(bytes).use == wire::FrameUse::roce_v2);
    VERBATIM_ASSERT(packet->packet.size() <= size);
  }
  const auto message = wire::decode_neighbour_message(bytes);
  if (message && !message->sender.empty()) {
    std::array<std::byte, wire::NeighbourMessage::kSizeMax> room;
    const std::size_t written = encode(*message, room);
    VERBATIM_ASSERT(wire::decode_neighbour_message(std::span(room).first(written)) == message);
  }
  return 0;
}

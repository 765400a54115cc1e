// Any bytes as a packet with an ICRC. The first byte chooses the flow, the next two the expected
// identification. An accepted ICRC must equal the computed one, and a right ICRC must be accepted.

#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/net/icrc.h"

namespace {

using namespace verbatim;
using namespace verbatim::wire;

IpFlow flow(bool ipv4, bool dont_fragment, bool has_grh) {
  IpFlow flow{.source_port = 0xc350, .dont_fragment = dont_fragment};
  if (has_grh) flow.source_port = flow.destination_port = 0;
  flow.source.bytes[15] = 1;
  flow.destination.bytes[15] = 2;
  if (ipv4) {
    flow.source.bytes[10] = flow.source.bytes[11] = 0xff;
    flow.destination.bytes[10] = flow.destination.bytes[11] = 0xff;
  }
  return flow;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || size > 60'000) return 0;
  const bool dont_fragment = (data[0] & 2) != 0;
  const bool has_grh = (data[0] & 4) != 0;  // RoCE v1.
  const bool mapped = (data[0] & 1) != 0;
  const bool ipv4 = mapped && !has_grh;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto expected = load_be<std::uint16_t>(bytes + 1);
  std::vector<std::byte> packet(bytes + 3, bytes + size);
  const IcrcSeed seed(flow(mapped, dont_fragment, has_grh));
  const IcrcSeed other_flag(flow(mapped, !dont_fragment, has_grh));

  const auto found = verify_icrc(seed, packet, expected);
  if (packet.size() < Bth::kSize + kIcrcBytes) {
    VERBATIM_ASSERT(!found);
    return 0;
  }
  const ByteSpan covered = ByteSpan(packet).first(packet.size() - kIcrcBytes);
  const std::span<std::byte, kIcrcBytes> trailer = std::span(packet).last<kIcrcBytes>();
  const std::uint32_t received = load_icrc(trailer);
  if (found) {
    VERBATIM_ASSERT(seed.compute(covered, *found) == received ||
                    other_flag.compute(covered, *found) == received);
  }

  // An identification that is unrelated to the expected one.
  const auto sent = static_cast<std::uint16_t>(expected * 40503u + data[0]);
  store_icrc(seed.compute(covered, sent), trailer);
  const auto right = verify_icrc(seed, packet, ipv4 ? expected : sent);
  VERBATIM_ASSERT(right == sent);
  VERBATIM_ASSERT(verify_icrc(other_flag, packet, expected) == (ipv4 ? sent : expected));
  return 0;
}

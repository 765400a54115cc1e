#include "wire/net/flow_grh.h"

#include <cstring>

namespace verbatim::wire {

void encode_packet_grh(const IpFlow& flow, std::size_t packet_bytes,
                       std::span<std::byte, Grh::kSize> out) {
  encode({.traffic_class = flow.traffic_class,
          .flow_label = flow.flow_label,
          .payload_length = static_cast<std::uint16_t>(packet_bytes),
          .hop_limit = flow.hop_limit,
          .source = flow.source,
          .destination = flow.destination},
         out);
}

void encode_receive_grh(const IpUdp& headers, std::span<std::byte, Grh::kSize> out) {
  if (headers.flow.has_grh()) {
    return encode_packet_grh(headers.flow, headers.udp_length - kUdpHeaderBytes, out);
  }
  if (!headers.flow.is_ipv4()) {
    encode_ip(headers, out);
    return;
  }
  constexpr std::size_t kUnused = Grh::kSize - kIpv4HeaderBytes;
  std::memset(out.data(), 0, kUnused);
  encode_ip(headers, out.last<kIpv4HeaderBytes>());
}

std::uint8_t packet_type(const IpFlow& flow) {
  if (flow.has_grh()) return 0;
  return flow.is_ipv4() ? 0xa : 0x9;
}

}  // namespace verbatim::wire

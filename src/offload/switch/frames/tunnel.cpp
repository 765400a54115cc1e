#include "offload/switch/frames/tunnel.h"

#include <algorithm>

#include <netinet/in.h>

#include "offload/switch/frames/segmentation.h"
#include "offload/switch/key.h"
#include "wire/net/frame.h"
#include "wire/net/ip.h"

namespace verbatim::offload {
namespace {

constexpr std::size_t kVxlanBytes = 8;
constexpr std::uint16_t kDynamicPorts = 0xc000;  // 49152 and above (RFC 6335).

std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

/// Where the outer headers are. Their sizes are checked: 0 for what is not there.
struct Outer {
  bool is_ipv4 = false;
  std::size_t ip = 0;
  std::size_t udp = 0;
};

Outer outer_of(ByteSpan headers) {
  Outer outer;
  std::size_t at = wire::kEthernetHeaderBytes;
  if (headers.size() < at) return outer;
  auto type = load_be<std::uint16_t>(headers.data() + at - 2);
  while ((type == wire::kTypeVlan || type == wire::kTypeServiceVlan) && headers.size() >= at + 4) {
    at += wire::kVlanTagBytes;
    type = load_be<std::uint16_t>(headers.data() + at - 2);
  }
  outer.is_ipv4 = type == wire::kTypeIpv4;
  const std::size_t least = outer.is_ipv4 ? wire::kIpv4HeaderBytes : wire::kIpv6HeaderBytes;
  if ((!outer.is_ipv4 && type != wire::kTypeIpv6) || headers.size() < at + least) return outer;
  outer.ip = at;
  const std::byte* const ip = headers.data() + at;
  const std::size_t bytes = outer.is_ipv4 ? (byte(ip) & 15u) * 4u : least;
  const bool is_udp = byte(ip + (outer.is_ipv4 ? 9 : 6)) == IPPROTO_UDP;
  const std::size_t udp = at + bytes;
  if (bytes >= least && is_udp && headers.size() >= udp + wire::kUdpHeaderBytes) outer.udp = udp;
  return outer;
}

void finish_udp(MutableByteSpan packet, const Outer& outer, std::uint32_t flow_hash) {
  std::byte* const udp = packet.data() + outer.udp;
  const std::size_t size = packet.size() - outer.udp;
  if (load_be<std::uint16_t>(udp) == 0) {
    store_be(udp, static_cast<std::uint16_t>(kDynamicPorts | (flow_hash & 0x3fff)));
  }
  store_be(udp + 4, static_cast<std::uint16_t>(size));
  if (load_be<std::uint16_t>(udp + 6) == 0) return;
  store_be(udp + 6, std::uint16_t{0});
  const std::size_t addresses = outer.ip + (outer.is_ipv4 ? 12 : 8);
  std::uint64_t sum = size + IPPROTO_UDP;
  sum = add_words(ByteSpan(packet).subspan(addresses, outer.is_ipv4 ? 8 : 32), sum);
  const auto checksum =
      static_cast<std::uint16_t>(~fold(add_words(ByteSpan(packet).subspan(outer.udp), sum)));
  store_be(udp + 6, checksum == 0 ? std::uint16_t{0xffff} : checksum);
}

}  // namespace

void finish_tunnel_header(MutableByteSpan frame, std::size_t header_bytes,
                          std::uint32_t flow_hash) {
  const Outer outer = outer_of(ByteSpan(frame).first(header_bytes));
  if (outer.ip == 0) return;
  std::byte* const ip = frame.data() + outer.ip;
  const std::size_t size = frame.size() - outer.ip;
  if (outer.is_ipv4) {
    store_be(ip + 2, static_cast<std::uint16_t>(size));
    store_be(ip + 10, std::uint16_t{0});
    const ByteSpan header(ip, std::min<std::size_t>((byte(ip) & 15u) * 4u, size));
    store_be(ip + 10, static_cast<std::uint16_t>(~fold(add_words(header))));
  } else {
    store_be(ip + 4, static_cast<std::uint16_t>(size - wire::kIpv6HeaderBytes));
  }
  if (outer.udp != 0) finish_udp(frame, outer, flow_hash);
}

TunnelHeaders tunnel_headers(ByteSpan frame) {
  const auto key = key_of(frame, 0);
  if (!key) return {};
  std::uint16_t protocol = wire::kTypeTransparentEthernet;
  std::size_t bytes = tunnel_bytes(frame, *key, protocol);
  if (bytes == 0 && key->protocol == IPPROTO_UDP) {  // VXLAN at another port.
    const Outer outer = outer_of(frame);
    bytes = outer.udp == 0 ? 0 : outer.udp + wire::kUdpHeaderBytes + kVxlanBytes;
  }
  if (bytes == 0 || bytes > frame.size()) return {};
  const bool is_frame = protocol == wire::kTypeTransparentEthernet;
  if (is_frame && frame.size() < bytes + wire::kEthernetHeaderBytes) return {};
  return {bytes, is_frame ? std::uint16_t{0} : protocol};
}

}  // namespace verbatim::offload

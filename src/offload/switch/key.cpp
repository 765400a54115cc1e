#include "offload/switch/key.h"

#include <cstring>
#include <span>

#include <netinet/in.h>

#include "wire/net/frame.h"
#include "wire/net/ip.h"

namespace verbatim::offload {
namespace {

constexpr std::uint16_t kFragmentOffset = 0x1fff;  // RFC 791, in units of eight bytes.
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr int kExtensionsMax = 8;

std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

template <std::size_t N>
void copy(std::array<std::uint8_t, N>& to, const std::byte* from) {
  std::memcpy(to.data(), from, N);
}

/// Returns where the transport header begins; 0 if the IP header is malformed.
std::size_t parse_ipv4(ByteSpan packet, Key& key) {
  if (packet.size() < wire::kIpv4HeaderBytes) return 0;
  const std::byte* const ip = packet.data();
  const std::size_t header = (byte(ip) & 15u) * 4u;
  const std::size_t total = load_be<std::uint16_t>(ip + 2);
  if (byte(ip) >> 4 != 4 || header < wire::kIpv4HeaderBytes || total < header ||
      total > packet.size()) {
    return 0;
  }
  key.traffic_class = byte(ip + 1);
  key.hop_limit = byte(ip + 8);
  key.protocol = byte(ip + 9);
  std::memcpy(key.source_ip.data(), ip + 12, 4);
  std::memcpy(key.destination_ip.data(), ip + 16, 4);
  const auto fragment = load_be<std::uint16_t>(ip + 6);
  if ((fragment & kFragmentOffset) != 0) {
    key.fragment = kLaterFragment;
  } else if ((fragment & kMoreFragments) != 0) {
    key.fragment = kFirstFragment;
  }
  return header;
}

/// Bytes of an extension header whose first eight bytes are at `at` (RFC 8200, RFC 4302).
std::size_t extension_bytes(std::uint8_t kind, const std::byte* at) {
  if (kind == IPPROTO_FRAGMENT) return 8;
  if (kind == IPPROTO_AH) return (byte(at + 1) + 2u) * 4u;
  return (byte(at + 1) + 1u) * 8u;
}

bool is_extension(std::uint8_t kind) {
  return kind == IPPROTO_HOPOPTS || kind == IPPROTO_ROUTING || kind == IPPROTO_FRAGMENT ||
         kind == IPPROTO_DSTOPTS || kind == IPPROTO_AH;
}

std::size_t parse_ipv6(ByteSpan packet, Key& key) {
  if (packet.size() < wire::kIpv6HeaderBytes || byte(packet.data()) >> 4 != 6) return 0;
  const std::byte* const ip = packet.data();
  if (load_be<std::uint16_t>(ip + 4) > packet.size() - wire::kIpv6HeaderBytes) return 0;
  key.traffic_class = static_cast<std::uint8_t>(load_be<std::uint16_t>(ip) >> 4);
  key.protocol = byte(ip + 6);
  key.hop_limit = byte(ip + 7);
  copy(key.source_ip, ip + 8);
  copy(key.destination_ip, ip + 24);
  std::size_t at = wire::kIpv6HeaderBytes;
  for (int i = 0; is_extension(key.protocol); ++i) {
    if (i == kExtensionsMax || packet.size() - at < 8) return 0;
    const std::size_t bytes = extension_bytes(key.protocol, ip + at);
    if (packet.size() - at < bytes) return 0;
    if (key.protocol == IPPROTO_FRAGMENT) {
      const bool is_later = (load_be<std::uint16_t>(ip + at + 2) & 0xfff8) != 0;
      key.fragment = is_later ? kLaterFragment : kFirstFragment;
    }
    key.protocol = byte(ip + at);
    at += bytes;
    if (key.fragment == kLaterFragment) break;
  }
  return at;
}

/// Returns false if the transport header is cut short.
bool parse_transport(ByteSpan transport, Key& key) {
  const std::byte* const at = transport.data();
  switch (key.protocol) {
    case IPPROTO_TCP:
      if (transport.size() < 20) return false;
      copy(key.tcp_flags, at + 12);
      key.tcp_flags[0] &= 0x0f;
      [[fallthrough]];
    case IPPROTO_UDP:
    case IPPROTO_SCTP:
      if (transport.size() < wire::kUdpHeaderBytes) return false;
      copy(key.source_port, at);
      copy(key.destination_port, at + 2);
      return true;
    case IPPROTO_ICMP:
      if (transport.size() < 4) return false;
      key.source_port[1] = byte(at);
      key.destination_port[1] = byte(at + 1);
      return true;
    default:
      return true;
  }
}

/// Adds what is behind Ethernet to the key. Returns false if a header is malformed.
bool parse_packet(std::uint16_t type, ByteSpan packet, Key& key) {
  key.ether_type = {static_cast<std::uint8_t>(type >> 8), static_cast<std::uint8_t>(type)};
  if (type != wire::kTypeIpv4 && type != wire::kTypeIpv6) return true;
  const std::size_t header =
      type == wire::kTypeIpv4 ? parse_ipv4(packet, key) : parse_ipv6(packet, key);
  if (header == 0) return false;
  return key.fragment == kLaterFragment || parse_transport(packet.subspan(header), key);
}

/// A tunnel's header, and where it begins.
struct FoundTunnel {
  wire::TunnelHeader header;
  std::size_t at;
};

/// `key`: of this frame, which so is well-formed up to its ports.
std::optional<FoundTunnel> tunnel_header_of(ByteSpan frame, const Key& key) {
  const std::uint16_t type =
      load_be<std::uint16_t>(std::as_bytes(std::span(key.ether_type)).data());
  const bool is_ip = type == wire::kTypeIpv4 || type == wire::kTypeIpv6;
  const bool is_udp = key.protocol == IPPROTO_UDP;
  if (!is_ip || key.fragment != kNoFragment || (!is_udp && key.protocol != IPPROTO_GRE)) return {};
  const std::size_t ip =
      wire::kEthernetHeaderBytes + ((key.vlan_tag[0] & kTagPresent) != 0 ? wire::kVlanTagBytes : 0);
  Key again;
  const ByteSpan packet = frame.subspan(ip);
  std::size_t at =
      ip + (type == wire::kTypeIpv4 ? parse_ipv4(packet, again) : parse_ipv6(packet, again));
  if (is_udp) at += wire::kUdpHeaderBytes;
  const auto header =
      is_udp ? wire::decode_udp_tunnel(
                   load_be<std::uint16_t>(std::as_bytes(std::span(key.destination_port)).data()),
                   frame.subspan(at))
             : wire::decode_gre(frame.subspan(at));
  if (!header) return {};
  return FoundTunnel{*header, at};
}

}  // namespace

bool read_key(ByteSpan frame, std::uint16_t port, Key& key) {
  if (frame.size() < wire::kEthernetHeaderBytes) return false;
  key = {};
  key.port = port;
  copy(key.destination_mac, frame.data());
  copy(key.source_mac, frame.data() + 6);
  std::size_t at = wire::kEthernetHeaderBytes;
  auto type = load_be<std::uint16_t>(frame.data() + 12);
  if (type == wire::kTypeVlan || type == wire::kTypeServiceVlan) {
    if (frame.size() < at + wire::kVlanTagBytes) return false;
    copy(key.vlan_protocol, frame.data() + 12);
    copy(key.vlan_tag, frame.data() + at);
    key.vlan_tag[0] |= kTagPresent;  // In the place of the drop-eligible bit, which none matches.
    type = load_be<std::uint16_t>(frame.data() + at + 2);
    at += wire::kVlanTagBytes;
  }
  return parse_packet(type, frame.subspan(at), key);
}

std::optional<InTunnel> tunnel_of(ByteSpan frame, const Key& key) {
  const auto header = tunnel_header_of(frame, key);
  if (!header) return {};
  InTunnel found{.key = {.kind = header->header.kind}};
  TunnelKey& tunnel = found.key;
  if (tunnel.kind == wire::TunnelKind::kGeneve) {
    found.options = frame.subspan(header->at, header->header.bytes).subspan(wire::kGeneveBytes);
  }
  store_be(reinterpret_cast<std::byte*>(tunnel.id.data()), header->header.id);
  store_be(reinterpret_cast<std::byte*>(tunnel.protocol.data()), header->header.protocol);
  const ByteSpan inside = frame.subspan(header->at + header->header.bytes);
  if (header->header.protocol != wire::kTypeTransparentEthernet) {
    if (!parse_packet(header->header.protocol, inside, tunnel.inner)) return {};
    return found;
  }
  if (!read_key(inside, 0, tunnel.inner)) return {};
  return found;
}

std::size_t tunnel_bytes(ByteSpan frame, const Key& key, std::uint16_t& protocol) {
  const auto header = tunnel_header_of(frame, key);
  if (!header) return 0;
  protocol = header->header.protocol;
  return header->at + header->header.bytes;
}

}  // namespace verbatim::offload

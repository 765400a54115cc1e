#include "wire/net/ip.h"

#include <cstring>

#include "base/assert.h"
#include "wire/net/grh.h"

namespace verbatim::wire {
namespace {

constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::size_t kMappedPrefixBytes = 12;

/// Returns the Internet checksum of an IPv4 header: zero if the checksum in it is right (RFC 1071).
std::uint16_t header_checksum(const std::byte* header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kIpv4HeaderBytes; i += 2) sum += load_be<std::uint16_t>(header + i);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

Gid mapped(const std::byte* address) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::memcpy(&gid.bytes[kMappedPrefixBytes], address, 4);
  return gid;
}

///     byte   0    1     2-3      4-5   6-7           8     9          10-11      12-15    16-19
///          +----+-----+--------+-----+-------------+-----+----------+----------+--------+--------+
///          |0x45| TOS | length | id  | flags, 0    | TTL | protocol | checksum | source | dest.  |
///          +----+-----+--------+-----+-------------+-----+----------+----------+--------+--------+
void encode_ipv4(const IpUdp& headers, std::byte* out) {
  const IpFlow& flow = headers.flow;
  out[0] = std::byte{0x45};
  out[1] = static_cast<std::byte>(flow.traffic_class);
  store_be(out + 2, static_cast<std::uint16_t>(kIpv4HeaderBytes + headers.udp_length));
  store_be(out + 4, headers.identification);
  store_be(out + 6, flow.dont_fragment ? kDontFragment : std::uint16_t{0});
  out[8] = static_cast<std::byte>(flow.hop_limit);
  out[9] = std::byte{kProtocolUdp};
  store_be(out + 10, std::uint16_t{0});
  std::memcpy(out + 12, &flow.source.bytes[kMappedPrefixBytes], 4);
  std::memcpy(out + 16, &flow.destination.bytes[kMappedPrefixBytes], 4);
  store_be(out + 10, header_checksum(out));
}

std::expected<IpUdp, WireError> decode_ipv4(ByteSpan datagram) {
  if (datagram.size() < kIpv4HeaderBytes) return std::unexpected(WireError::too_short);
  const std::byte* at = datagram.data();
  const auto flags = load_be<std::uint16_t>(at + 6);
  if (at[0] != std::byte{0x45} || (flags & ~kDontFragment) != 0) {
    return std::unexpected(WireError::ip_header);
  }
  if (header_checksum(at) != 0) return std::unexpected(WireError::ip_checksum);
  if (at[9] != std::byte{kProtocolUdp}) return std::unexpected(WireError::ip_protocol);
  if (load_be<std::uint16_t>(at + 2) != datagram.size()) {
    return std::unexpected(WireError::ip_length);
  }
  IpUdp headers;
  headers.flow.source = mapped(at + 12);
  headers.flow.destination = mapped(at + 16);
  headers.flow.traffic_class = std::to_integer<std::uint8_t>(at[1]);
  headers.flow.hop_limit = std::to_integer<std::uint8_t>(at[8]);
  headers.flow.dont_fragment = flags != 0;
  headers.identification = load_be<std::uint16_t>(at + 4);
  return headers;
}

std::expected<IpUdp, WireError> decode_ipv6(ByteSpan datagram) {
  const auto header = decode_grh(datagram);
  if (!header) return std::unexpected(header.error());
  if (header->next_header != kProtocolUdp) return std::unexpected(WireError::ip_protocol);
  if (kIpv6HeaderBytes + header->payload_length != datagram.size()) {
    return std::unexpected(WireError::ip_length);
  }
  if (header->source.is_ipv4_mapped() || header->destination.is_ipv4_mapped()) {
    return std::unexpected(WireError::ip_address);
  }
  IpUdp headers;
  headers.flow.source = header->source;
  headers.flow.destination = header->destination;
  headers.flow.traffic_class = header->traffic_class;
  headers.flow.hop_limit = header->hop_limit;
  headers.flow.flow_label = header->flow_label;
  return headers;
}

}  // namespace

std::size_t encode_ip(const IpUdp& headers, MutableByteSpan out) {
  const IpFlow& flow = headers.flow;
  VERBATIM_ASSERT(out.size() >= flow.ip_header_bytes());
  if (flow.is_ipv4()) {
    encode_ipv4(headers, out.data());
    return kIpv4HeaderBytes;
  }
  encode(Grh{.traffic_class = flow.traffic_class,
             .flow_label = flow.flow_label,
             .payload_length = headers.udp_length,
             .next_header = kProtocolUdp,
             .hop_limit = flow.hop_limit,
             .source = flow.source,
             .destination = flow.destination},
         out.first<Grh::kSize>());
  return kIpv6HeaderBytes;
}

std::size_t encode_ip_udp(const IpUdp& headers, MutableByteSpan out) {
  const std::size_t ip_bytes = encode_ip(headers, out);
  VERBATIM_ASSERT(out.size() >= ip_bytes + kUdpHeaderBytes);
  std::byte* udp = out.data() + ip_bytes;
  store_be(udp, headers.flow.source_port);
  store_be(udp + 2, headers.flow.destination_port);
  store_be(udp + 4, headers.udp_length);
  store_be(udp + 6, std::uint16_t{0});
  return ip_bytes + kUdpHeaderBytes;
}

std::expected<IpUdp, WireError> decode_ip_udp(ByteSpan datagram) {
  if (datagram.empty()) return std::unexpected(WireError::too_short);
  const auto version = std::to_integer<std::uint8_t>(datagram[0]) >> 4;
  if (version != 4 && version != 6) return std::unexpected(WireError::ip_version);
  auto headers = version == 4 ? decode_ipv4(datagram) : decode_ipv6(datagram);
  if (!headers) return headers;
  const ByteSpan udp = datagram.subspan(version == 4 ? kIpv4HeaderBytes : kIpv6HeaderBytes);
  if (udp.size() < kUdpHeaderBytes) return std::unexpected(WireError::too_short);
  headers->flow.source_port = load_be<std::uint16_t>(&udp[0]);
  headers->flow.destination_port = load_be<std::uint16_t>(&udp[2]);
  if (headers->flow.destination_port == 0) return std::unexpected(WireError::udp_port);
  headers->udp_length = load_be<std::uint16_t>(&udp[4]);
  if (headers->udp_length != udp.size()) return std::unexpected(WireError::ip_length);
  return headers;
}

}  // namespace verbatim::wire

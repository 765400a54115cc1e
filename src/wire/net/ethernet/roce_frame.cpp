#include "wire/net/ethernet/roce_frame.h"

#include <cstddef>
#include <cstring>

#include <netinet/in.h>

#include "base/net/address.h"
#include "wire/ib/bth.h"
#include "wire/net/frame.h"
#include "wire/net/frame_checksum.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kTypeAt = 12;
constexpr std::size_t kQpnAt = 5;                                            // In the BTH.
constexpr std::uint8_t kFirstNeighbourType = 133, kLastNeighbourType = 137;  // RFC 4861.

std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

FrameOwner roce(FrameUse use, ByteSpan from_bth) {
  if (from_bth.size() < Bth::kSize) return {};
  return {use, load_be24(from_bth.data() + kQpnAt)};
}

FrameOwner owner_of_udp(ByteSpan datagram) {
  if (datagram.size() < kUdpHeaderBytes) return {};
  if (load_be<std::uint16_t>(datagram.data() + 2) != kRocePort) return {};
  return roce(FrameUse::roce_v2, datagram.subspan(kUdpHeaderBytes));
}

FrameOwner owner_of_ipv4(ByteSpan packet) {
  constexpr std::uint16_t kFragmentBits = 0x3fff;
  if (packet.size() < kIpv4HeaderBytes || byte(packet.data()) != 0x45) return {};
  const bool is_fragment = (load_be<std::uint16_t>(packet.data() + 6) & kFragmentBits) != 0;
  if (is_fragment || byte(packet.data() + 9) != IPPROTO_UDP) return {};
  return owner_of_udp(packet.subspan(kIpv4HeaderBytes));
}

FrameOwner owner_of_ipv6(ByteSpan packet) {
  if (packet.size() < kIpv6HeaderBytes || byte(packet.data()) >> 4 != 6) return {};
  const std::uint8_t next = byte(packet.data() + 6);
  const ByteSpan rest = packet.subspan(kIpv6HeaderBytes);
  if (next == IPPROTO_UDP) return owner_of_udp(rest);
  if (next != IPPROTO_ICMPV6 || rest.empty()) return {};
  const std::uint8_t type = byte(rest.data());
  if (type < kFirstNeighbourType || type > kLastNeighbourType) return {};
  return {FrameUse::neighbours, 0};
}

}  // namespace

FrameOwner owner_of(ByteSpan frame) {
  if (frame.size() < kEthernetHeaderBytes) return {};
  const ByteSpan packet = frame.subspan(kEthernetHeaderBytes);
  switch (load_be<std::uint16_t>(frame.data() + kTypeAt)) {
    case kTypeRoceV1:
      return packet.size() < Grh::kSize ? FrameOwner{}
                                        : roce(FrameUse::roce_v1, packet.subspan(Grh::kSize));
    case kTypeIpv4:
      return owner_of_ipv4(packet);
    case kTypeIpv6:
      return owner_of_ipv6(packet);
    case kTypeArp:
      return {FrameUse::neighbours, 0};
    default:
      return {};
  }
}

std::optional<RoceV2Frame> decode_roce_v2_frame(MutableByteSpan frame) {
  if (owner_of(frame).use != FrameUse::roce_v2) return {};
  const MutableByteSpan packet = frame.subspan(kEthernetHeaderBytes);
  const bool is_ipv4 = load_be<std::uint16_t>(&frame[kTypeAt]) == kTypeIpv4;
  const std::size_t ip = is_ipv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  const std::size_t bytes =
      is_ipv4 ? load_be<std::uint16_t>(&packet[2]) : ip + load_be<std::uint16_t>(&packet[4]);
  if (bytes > packet.size() || bytes < ip + kUdpHeaderBytes) return {};
  const auto headers = decode_ip_udp(packet.first(bytes));
  if (!headers) return {};
  return RoceV2Frame{*headers, packet.subspan(ip + kUdpHeaderBytes, bytes - ip - kUdpHeaderBytes)};
}

void encode_ethernet(const MacAddress& to, const MacAddress& from, std::uint16_t type,
                     std::byte* out) {
  std::memcpy(out, to.data(), to.size());
  std::memcpy(out + to.size(), from.data(), from.size());
  store_be(out + kTypeAt, type);
}

void encode_roce_v2_headers(const MacAddress& to, const MacAddress& from, const IpFlow& flow,
                            std::uint16_t identification, MutableByteSpan frame) {
  encode_ethernet(to, from, flow.is_ipv4() ? kTypeIpv4 : kTypeIpv6, frame.data());
  const std::size_t udp = frame.size() - kEthernetHeaderBytes - flow.ip_header_bytes();
  encode_ip_udp({.flow = flow,
                 .udp_length = static_cast<std::uint16_t>(udp),
                 .identification = identification},
                frame.subspan(kEthernetHeaderBytes));
  if (!flow.is_ipv4()) fill_checksums(frame, parse_frame(frame).outer);
}

}  // namespace verbatim::wire

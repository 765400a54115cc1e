#include "ulp/ipoib/wire/too_long.h"

#include <algorithm>
#include <cstring>

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::size_t kIcmpBytes = 8;
constexpr std::size_t kIpv4BytesMax = 576;  // RFC 1812, 4.3.2.3.
constexpr std::byte kHopLimit{64};

bool is_multicast_or_none(const SocketAddress& address) {
  return address.is_multicast() || address == SocketAddress::ipv4({}) ||
         address == SocketAddress::ipv6({});
}

/// Messages about errors are not answered by others.
bool is_error(const IpPacket& packet) {
  if (packet.payload.empty()) return false;
  const auto type = std::to_integer<unsigned>(packet.payload[0]);
  constexpr unsigned kIpv6Informational = 128;
  if (packet.protocol == kIcmpv6) return type < kIpv6Informational;
  return packet.protocol == kIcmp &&
         (type == 3 || type == 4 || type == 5 || type == 11 || type == 12);
}

void put_address(std::byte* at, const SocketAddress& address) {
  if (address.is_ipv4()) std::memcpy(at, address.ipv4_bytes().data(), 4);
  if (address.is_ipv6()) std::memcpy(at, address.ipv6_bytes().data(), 16);
}

void put_ipv4(MutableByteSpan out, const SocketAddress& router, const IpPacket& about) {
  constexpr std::byte kInternetControl{0xc0};  // As Linux sends them.
  out[0] = std::byte{0x45};
  out[1] = kInternetControl;
  store_be(&out[2], static_cast<std::uint16_t>(out.size()));
  out[8] = kHopLimit;
  out[9] = std::byte{kIcmp};
  put_address(&out[12], router);
  put_address(&out[16], about.source);
  store_be(&out[10], checksum_of(sum_of(out.first(kIpv4Bytes))));
}

void put_ipv6(MutableByteSpan out, const SocketAddress& router, const IpPacket& about) {
  out[0] = std::byte{0x60};
  store_be(&out[4], static_cast<std::uint16_t>(out.size() - kIpv6Bytes));
  out[6] = std::byte{kIcmpv6};
  out[7] = kHopLimit;
  put_address(&out[8], router);
  put_address(&out[24], about.source);
}

}  // namespace

std::size_t encode_too_long(ByteSpan packet, const SocketAddress& router, std::uint32_t mtu,
                            std::span<std::byte, kTooLongBytesMax> out) {
  const auto about = decode_ip(packet);
  if (!about || about->is_fragment || is_error(*about) || is_multicast_or_none(about->source))
    return 0;
  const bool is_ipv4 = about->type == EtherType::ipv4;
  const std::size_t header = is_ipv4 ? kIpv4Bytes : kIpv6Bytes;
  const std::size_t most = (is_ipv4 ? kIpv4BytesMax : kTooLongBytesMax) - header - kIcmpBytes;
  const ByteSpan quoted = packet.first(std::min(packet.size(), most));
  const auto message = MutableByteSpan(out).first(header + kIcmpBytes + quoted.size());
  std::ranges::fill(message, std::byte{});
  const auto icmp = message.subspan(header);
  std::ranges::copy(quoted, icmp.begin() + kIcmpBytes);
  if (is_ipv4) {
    constexpr std::byte kUnreachable{3}, kFragmentationNeeded{4};
    icmp[0] = kUnreachable;
    icmp[1] = kFragmentationNeeded;
    store_be(&icmp[6], static_cast<std::uint16_t>(mtu));
    store_be(&icmp[2], checksum_of(sum_of(icmp)));
    put_ipv4(message, router, *about);
  } else {
    constexpr std::byte kPacketTooBig{2};
    icmp[0] = kPacketTooBig;
    store_be(&icmp[4], mtu);
    const auto pseudo = pseudo_sum(router, about->source, kIcmpv6, icmp.size());
    store_be(&icmp[2], checksum_of(sum_of(icmp, pseudo)));
    put_ipv6(message, router, *about);
  }
  return message.size();
}

}  // namespace verbatim::ulp::ipoib

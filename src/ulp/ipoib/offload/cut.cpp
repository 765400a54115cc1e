#include "ulp/ipoib/offload/cut.h"

#include <algorithm>

#include "ulp/ipoib/offload/tcp_header.h"
#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::size_t kIpv4LengthAt = 2, kIpv4NumberAt = 4, kIpv4ChecksumAt = 10;
constexpr std::size_t kIpv6LengthAt = 4;

}  // namespace

bool complete_checksum(const OffloadHeader& header, MutableByteSpan packet) {
  if ((header.flags & OffloadHeader::kNeedsChecksum) == 0) return true;
  const std::size_t at = std::size_t{header.checksum_start} + header.checksum_offset;
  if (at + 2 > packet.size()) return false;
  const std::uint16_t sum = checksum_of(sum_of(packet.subspan(header.checksum_start)));
  // UDP: zero would be none at all (RFC 768).
  store_be(&packet[at], sum == 0 && header.checksum_offset == udp::kChecksumAt
                            ? static_cast<std::uint16_t>(0xffff)
                            : sum);
  return true;
}

std::optional<Cut> Cut::of(const OffloadHeader& header, ByteSpan packet) {
  const auto type = static_cast<std::uint8_t>(header.type & ~unsigned{OffloadHeader::kCongestion});
  const auto ip = decode_ip(packet);
  if (!ip || header.segment_bytes == 0) return std::nullopt;
  Cut cut;
  cut.packet_ = packet;
  cut.is_ipv4_ = ip->type == EtherType::ipv4;
  cut.is_udp_ = type == OffloadHeader::kUdp;
  const std::uint8_t tcp = cut.is_ipv4_ ? OffloadHeader::kTcpIpv4 : OffloadHeader::kTcpIpv6;
  if (!cut.is_udp_ && type != tcp) return std::nullopt;
  cut.transport_at_ = header.checksum_start;
  if (cut.transport_at_ < (cut.is_ipv4_ ? kIpv4Bytes : kIpv6Bytes) ||
      cut.transport_at_ > packet.size())
    return std::nullopt;
  const ByteSpan transport = packet.subspan(cut.transport_at_);
  const std::size_t bytes = cut.is_udp_ ? udp::kBytes : tcp::header_bytes(transport);
  cut.header_bytes_ = cut.transport_at_ + bytes;
  if (bytes == 0 || cut.header_bytes_ >= packet.size() || cut.header_bytes_ > kHeaderBytesMax)
    return std::nullopt;
  cut.payload_bytes_ = header.segment_bytes;
  const std::size_t payload = packet.size() - cut.header_bytes_;
  cut.count_ = (payload + cut.payload_bytes_ - 1) / cut.payload_bytes_;
  if (cut.count_ > kSegmentsMax) return std::nullopt;
  return cut;
}

ByteSpan Cut::segment(std::size_t i, MutableByteSpan header) const {
  header = header.first(header_bytes_);
  const ByteSpan all = packet_.subspan(header_bytes_);
  const std::size_t at = i * payload_bytes_;
  const ByteSpan payload = all.subspan(at, std::min(payload_bytes_, all.size() - at));
  std::ranges::copy(packet_.first(header_bytes_), header.begin());
  finish_ip(header, i, header_bytes_ + payload.size());
  const auto transport = header.subspan(transport_at_);
  if (is_udp_) {
    store_be(&transport[udp::kLengthAt],
             static_cast<std::uint16_t>(transport.size() + payload.size()));
  } else {
    finish_tcp(transport, i);
  }
  finish_checksum(header, payload);
  return payload;
}

void Cut::finish_ip(MutableByteSpan header, std::size_t i, std::size_t bytes) const {
  if (!is_ipv4_) {
    return store_be(&header[kIpv6LengthAt], static_cast<std::uint16_t>(bytes - kIpv6Bytes));
  }
  const auto number = load_be<std::uint16_t>(&header[kIpv4NumberAt]);
  store_be(&header[kIpv4LengthAt], static_cast<std::uint16_t>(bytes));
  store_be(&header[kIpv4NumberAt], static_cast<std::uint16_t>(number + i));
  store_be(&header[kIpv4ChecksumAt], std::uint16_t{0});
  store_be(&header[kIpv4ChecksumAt], checksum_of(sum_of(header.first(transport_at_))));
}

void Cut::finish_tcp(MutableByteSpan tcp, std::size_t i) const {
  const auto sequence = load_be<std::uint32_t>(&tcp[tcp::kSequenceAt]);
  store_be(&tcp[tcp::kSequenceAt], static_cast<std::uint32_t>(sequence + i * payload_bytes_));
  if (i + 1 < count_) tcp[tcp::kFlagsAt] &= ~(tcp::kFin | tcp::kPush);
  if (i > 0) tcp[tcp::kFlagsAt] &= ~tcp::kCongestion;
}

void Cut::finish_checksum(MutableByteSpan header, ByteSpan payload) const {
  const auto transport = header.subspan(transport_at_);
  std::byte* const checksum = &transport[is_udp_ ? udp::kChecksumAt : tcp::kChecksumAt];
  store_be(checksum, std::uint16_t{0});
  // Source and destination, which end IP's fixed header.
  const ByteSpan addresses = ByteSpan(header).subspan(is_ipv4_ ? 12 : 8, is_ipv4_ ? 8 : 32);
  const std::size_t bytes = transport.size() + payload.size();
  std::uint32_t sum =
      sum_of(addresses, static_cast<std::uint32_t>(bytes) + (is_udp_ ? kUdp : kTcp));
  sum = sum_of(payload, sum_of(transport, sum));
  const std::uint16_t whole = checksum_of(sum);
  store_be(checksum, is_udp_ && whole == 0 ? static_cast<std::uint16_t>(0xffff) : whole);
}

}  // namespace verbatim::ulp::ipoib

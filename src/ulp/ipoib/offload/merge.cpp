#include "ulp/ipoib/offload/merge.h"

#include <algorithm>
#include <optional>

#include "ulp/ipoib/offload/tcp_header.h"
#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {

/// Of a segment that may be merged.
struct Merge::Parts {
  std::size_t transport_at = 0, header_bytes = 0;
  ByteSpan payload;
  std::uint32_t sequence = 0;
  bool is_pushed = false;

  static std::optional<Parts> of(ByteSpan packet);
};

namespace {

constexpr std::byte kPlainIpv4{0x45};
constexpr std::size_t kIpv4LengthAt = 2, kIpv4NumberAt = 4, kIpv4ChecksumAt = 10;
constexpr std::size_t kIpv6LengthAt = 4;

/// `bytes`: TCP's header and payload.
std::uint32_t pseudo_sum_of(ByteSpan packet, std::size_t transport_at, std::size_t bytes) {
  const bool is_ipv4 = transport_at == kIpv4Bytes;
  return sum_of(packet.subspan(is_ipv4 ? 12 : 8, is_ipv4 ? 8 : 32),
                static_cast<std::uint32_t>(bytes) + kTcp);
}

bool are_equal_without(ByteSpan a, ByteSpan b, std::size_t from, std::size_t to) {
  return std::ranges::equal(a.first(from), b.first(from)) &&
         std::ranges::equal(a.subspan(to), b.subspan(to));
}

}  // namespace

/// Data and ACK alone: no option of IP, no fragment, and no flag of TCP that must be seen by
/// itself.
std::optional<Merge::Parts> Merge::Parts::of(ByteSpan packet) {
  const auto ip = decode_ip(packet);
  if (!ip || ip->protocol != kTcp || ip->is_fragment) return std::nullopt;
  Parts parts{.transport_at = static_cast<std::size_t>(ip->payload.data() - packet.data())};
  const bool is_ipv4 = ip->type == EtherType::ipv4;
  if (is_ipv4 ? packet[0] != kPlainIpv4 || ip->may_be_fragmented : parts.transport_at != kIpv6Bytes)
    return std::nullopt;
  const ByteSpan tcp = ip->payload;
  const std::size_t bytes = tcp::header_bytes(tcp);
  if (bytes == 0 || bytes == tcp.size()) return std::nullopt;
  const std::byte flags = tcp[tcp::kFlagsAt];
  if ((flags & ~tcp::kPush) != tcp::kAck) return std::nullopt;
  if (is_ipv4 && checksum_of(sum_of(packet.first(kIpv4Bytes))) != 0) return std::nullopt;
  const std::uint32_t pseudo = pseudo_sum_of(packet, parts.transport_at, tcp.size());
  if (checksum_of(sum_of(tcp, pseudo)) != 0) return std::nullopt;
  parts.header_bytes = parts.transport_at + bytes;
  parts.payload = tcp.subspan(bytes);
  parts.sequence = load_be<std::uint32_t>(&tcp[tcp::kSequenceAt]);
  parts.is_pushed = (flags & tcp::kPush) != std::byte{};
  return parts;
}

bool Merge::add(ByteSpan packet) {
  const auto parts = Parts::of(packet);
  if (!parts) return false;
  if (is_empty()) {
    begin(packet, *parts);
  } else if (!follows(packet, *parts)) {
    return false;
  }
  parts_.push(parts->payload);
  bytes_ += parts->payload.size();
  next_sequence_ += static_cast<std::uint32_t>(parts->payload.size());
  if (parts->is_pushed) header_[transport_at_ + tcp::kFlagsAt] |= tcp::kPush;
  is_full_ = parts->is_pushed || parts->payload.size() < segment_bytes_ || parts_.full();
  return true;
}

void Merge::begin(ByteSpan packet, const Parts& parts) {
  std::ranges::copy(packet.first(parts.header_bytes), header_.begin());
  parts_.push(ByteSpan(header_).first(parts.header_bytes));
  bytes_ = header_bytes_ = parts.header_bytes;
  transport_at_ = parts.transport_at;
  segment_bytes_ = parts.payload.size();
  next_sequence_ = parts.sequence;
}

/// The next bytes of the same connection, and nothing else is new: what acknowledges more, or has
/// another time stamp, stands alone.
bool Merge::follows(ByteSpan packet, const Parts& parts) const {
  if (is_full_ || parts.header_bytes != header_bytes_ || parts.transport_at != transport_at_ ||
      parts.sequence != next_sequence_ || parts.payload.size() > segment_bytes_ ||
      bytes_ + parts.payload.size() > kBytesMax)
    return false;
  const ByteSpan own = header_;
  const ByteSpan ip = own.first(transport_at_), other_ip = packet.first(transport_at_);
  const bool is_same_ip =
      transport_at_ == kIpv4Bytes
          ? are_equal_without(ip.first(kIpv4ChecksumAt), other_ip.first(kIpv4ChecksumAt),
                              kIpv4LengthAt, kIpv4NumberAt + 2) &&
                std::ranges::equal(ip.subspan(12), other_ip.subspan(12))
          : are_equal_without(ip, other_ip, kIpv6LengthAt, kIpv6LengthAt + 2);
  if (!is_same_ip) return false;
  const std::size_t bytes = header_bytes_ - transport_at_;
  const ByteSpan tcp = own.subspan(transport_at_, bytes);
  const ByteSpan other = packet.subspan(transport_at_, bytes);
  return std::ranges::equal(tcp.first(tcp::kSequenceAt), other.first(tcp::kSequenceAt)) &&
         std::ranges::equal(tcp.subspan(8, 5), other.subspan(8, 5)) &&    // ACK, length.
         std::ranges::equal(tcp.subspan(14, 2), other.subspan(14, 2)) &&  // Window.
         std::ranges::equal(tcp.subspan(18), other.subspan(18));          // Options.
}

void Merge::finish_header() {
  const bool is_ipv4 = transport_at_ == kIpv4Bytes;
  const std::size_t length = bytes_ - (is_ipv4 ? 0 : kIpv6Bytes);
  store_be(&header_[is_ipv4 ? kIpv4LengthAt : kIpv6LengthAt], static_cast<std::uint16_t>(length));
  if (is_ipv4) {
    store_be(&header_[kIpv4ChecksumAt], std::uint16_t{0});
    store_be(&header_[kIpv4ChecksumAt], checksum_of(sum_of(ByteSpan(header_).first(kIpv4Bytes))));
  }
  // The pseudo header's sum: what the kernel would have begun with.
  const auto pseudo = pseudo_sum_of(header_, transport_at_, bytes_ - transport_at_);
  store_be(&header_[transport_at_ + tcp::kChecksumAt],
           static_cast<std::uint16_t>(~checksum_of(pseudo)));
}

Merge::Whole Merge::take() {
  taken_ = std::exchange(parts_, {});
  is_full_ = false;
  if (taken_.size() == 2) return {{.flags = OffloadHeader::kChecksumIsRight}, taken_};
  finish_header();
  const bool is_ipv4 = transport_at_ == kIpv4Bytes;
  return {{.flags = OffloadHeader::kNeedsChecksum,
           .type = is_ipv4 ? OffloadHeader::kTcpIpv4 : OffloadHeader::kTcpIpv6,
           .header_bytes = static_cast<std::uint16_t>(header_bytes_),
           .segment_bytes = static_cast<std::uint16_t>(segment_bytes_),
           .checksum_start = static_cast<std::uint16_t>(transport_at_),
           .checksum_offset = tcp::kChecksumAt},
          taken_};
}

}  // namespace verbatim::ulp::ipoib

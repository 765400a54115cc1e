#include "ulp/ipoib/wire/neighbour_message.h"

#include <algorithm>

#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::size_t kMessageBytes = 24, kOptionBytes = 24, kTargetAt = 8;
constexpr std::size_t kOptionAddressAt = 4;  // Type, length, two bytes of zero.
constexpr std::uint8_t kHopLimit = 255, kOptionLength = 3;
constexpr std::uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr std::uint8_t kRouter = 0x80, kSolicited = 0x40, kOverride = 0x20;

using Kind = NeighbourMessage::Kind;

bool is_kind(std::byte type) {
  return type == std::byte{raw(Kind::solicitation)} || type == std::byte{raw(Kind::advertisement)};
}

/// False: an option has no length, or is longer than the message.
bool take_options(ByteSpan options, NeighbourMessage& message) {
  const bool is_solicitation = message.kind == Kind::solicitation;
  const std::byte wanted{is_solicitation ? kSourceOption : kTargetOption};
  while (!options.empty()) {
    if (options.size() < 8) return false;
    const std::size_t bytes = std::to_integer<std::size_t>(options[1]) * 8;
    if (bytes == 0 || bytes > options.size()) return false;
    if (options[0] == wanted && bytes == kOptionBytes) {
      message.address =
          decode_hardware_address(options.subspan<kOptionAddressAt, HardwareAddress::kSize>());
    }
    options = options.subspan(bytes);
  }
  return true;
}

}  // namespace

bool is_neighbour_message(ByteSpan packet) {
  const auto ip = decode_ip(packet);
  return ip && ip->type == EtherType::ipv6 && ip->protocol == kIcmpv6 && !ip->payload.empty() &&
         is_kind(ip->payload[0]);
}

std::optional<NeighbourMessage> decode_neighbour_message(ByteSpan packet) {
  const auto ip = decode_ip(packet);
  if (!ip || ip->type != EtherType::ipv6 || ip->protocol != kIcmpv6) return std::nullopt;
  const ByteSpan bytes = ip->payload;
  if (ip->hop_limit != kHopLimit || bytes.size() < kMessageBytes || !is_kind(bytes[0]) ||
      bytes[1] != std::byte{0})
    return std::nullopt;
  const auto sum = pseudo_sum(ip->source, ip->destination, kIcmpv6, bytes.size());
  if (checksum_of(sum_of(bytes, sum)) != 0) return std::nullopt;
  NeighbourMessage message{.kind = static_cast<Kind>(bytes[0]),
                           .source = ip->source.ipv6_bytes(),
                           .destination = ip->destination.ipv6_bytes()};
  std::memcpy(message.target.data(), &bytes[kTargetAt], message.target.size());
  if (message.target[0] == 0xff) return std::nullopt;
  if (message.kind == Kind::advertisement) {
    const auto flags = std::to_integer<std::uint8_t>(bytes[4]);
    message.is_router = (flags & kRouter) != 0;
    message.is_solicited = (flags & kSolicited) != 0;
    message.overrides = (flags & kOverride) != 0;
    if (message.is_solicited && message.destination[0] == 0xff) return std::nullopt;
  }
  if (!take_options(bytes.subspan(kMessageBytes), message)) return std::nullopt;
  // Duplicate address detection comes without an address of the sender.
  const bool is_detection = message.source == Ipv6{};
  if (is_detection && (message.kind != Kind::solicitation || message.address)) return std::nullopt;
  return message;
}

std::size_t encode(const NeighbourMessage& message,
                   std::span<std::byte, NeighbourMessage::kSizeMax> out) {
  std::ranges::fill(out, std::byte{0});
  const std::size_t length = kMessageBytes + (message.address ? kOptionBytes : 0);
  out[0] = std::byte{0x60};
  store_be(&out[4], static_cast<std::uint16_t>(length));
  out[6] = std::byte{kIcmpv6};
  out[7] = std::byte{kHopLimit};
  std::memcpy(&out[8], message.source.data(), 16);
  std::memcpy(&out[24], message.destination.data(), 16);
  const auto icmp = out.subspan(kIpv6Bytes, length);
  icmp[0] = std::byte{raw(message.kind)};
  icmp[4] = std::byte{static_cast<std::uint8_t>((message.is_router ? kRouter : 0) |
                                                (message.is_solicited ? kSolicited : 0) |
                                                (message.overrides ? kOverride : 0))};
  std::memcpy(&icmp[kTargetAt], message.target.data(), 16);
  if (message.address) {
    const bool is_solicitation = message.kind == Kind::solicitation;
    icmp[kMessageBytes] = std::byte{is_solicitation ? kSourceOption : kTargetOption};
    icmp[kMessageBytes + 1] = std::byte{kOptionLength};
    encode(*message.address,
           icmp.subspan<kMessageBytes + kOptionAddressAt, HardwareAddress::kSize>());
  }
  const auto sum = pseudo_sum(SocketAddress::ipv6(message.source),
                              SocketAddress::ipv6(message.destination), kIcmpv6, length);
  store_be(&icmp[2], checksum_of(sum_of(icmp, sum)));
  return kIpv6Bytes + length;
}

Ipv6 solicited_node(const Ipv6& address) {
  Ipv6 group{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy_n(address.begin() + 13, 3, group.begin() + 13);
  return group;
}

}  // namespace verbatim::ulp::ipoib

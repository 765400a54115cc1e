#include "wire/net/ethernet/neighbour_message.h"

#include <cstring>

#include <netinet/in.h>

#include "wire/net/ethernet/roce_frame.h"
#include "wire/net/frame.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

namespace verbatim::wire {
namespace {

constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// ARP for Ethernet and IPv4.
//
//     byte   0-1       2-3       4      5      6-7        8-13        14-17      18-23       24-27
//          +---------+---------+------+------+----------+-----------+----------+-----------+--------+
//          | 1       | 0x0800  | 6    | 4    | operation| sender MAC| sender IP| target MAC| target
//          |
//          +---------+---------+------+------+----------+-----------+----------+-----------+--------+
constexpr std::size_t kArpBytes = 28;
constexpr std::uint64_t kArpStart = 0x0001'0800'0604;
constexpr std::uint16_t kArpRequest = 1, kArpReply = 2;

// Neighbour solicitation and advertisement, with the option that has the sender's MAC.
//
//     byte   0      1     2-3       4-7         8-23     24     25   26-31
//          +------+-----+---------+-----------+--------+------+----+-----+
//          | type | 0   | checksum| flags, 0  | target | 1, 2 | 1  | MAC |
//          +------+-----+---------+-----------+--------+------+----+-----+
constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr std::size_t kFixedBytes = 24;
constexpr std::size_t kOptionUnit = 8;
constexpr std::uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr std::uint32_t kSolicitedOverrides = 0x60000000;
constexpr std::uint8_t kOnLink = 255;  // The hop limit that no router leaves.

template <std::size_t N>
std::array<std::uint8_t, N> load(const std::byte* at) {
  std::array<std::uint8_t, N> bytes;
  std::memcpy(bytes.data(), at, N);
  return bytes;
}

std::optional<NeighbourMessage> decode_arp(ByteSpan packet) {
  if (packet.size() < kArpBytes) return {};
  const std::byte* const at = packet.data();
  if (load_be<std::uint64_t>(at) >> 16 != kArpStart) return {};
  const auto operation = load_be<std::uint16_t>(at + 6);
  if (operation != kArpRequest && operation != kArpReply) return {};
  const auto sender = load<4>(at + 14);
  return NeighbourMessage{
      .kind = operation == kArpRequest ? NeighbourMessage::Kind::question
                                       : NeighbourMessage::Kind::answer,
      .sender_mac = load<6>(at + 8),
      .sender = sender == decltype(sender){} ? SocketAddress() : SocketAddress::ipv4(sender),
      .target = SocketAddress::ipv4(load<4>(at + 24)),
      .to = operation == kArpReply ? load<6>(at + 18) : MacAddress{}};
}

/// The MAC in the first option of that type. Nothing if the options are malformed.
std::optional<MacAddress> mac_in(ByteSpan options, std::uint8_t wanted) {
  while (options.size() >= kOptionUnit) {
    const std::size_t bytes = std::to_integer<std::size_t>(options[1]) * kOptionUnit;
    if (bytes == 0 || bytes > options.size()) return {};
    if (options[0] == std::byte{wanted}) return load<6>(options.data() + 2);
    options = options.subspan(bytes);
  }
  return {};
}

/// RFC 4443, section 2.3: what makes the sum right. 0 if the checksum that `icmp` has is right.
std::uint16_t icmp_checksum(const Grh& header, ByteSpan icmp) {
  std::uint64_t sum = icmp.size() + IPPROTO_ICMPV6;
  const auto add = [&sum](ByteSpan bytes) {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      sum += std::to_integer<std::uint64_t>(bytes[at]) << (at % 2 == 0 ? 8 : 0);
    }
  };
  add(std::as_bytes(std::span(header.source.bytes)));
  add(std::as_bytes(std::span(header.destination.bytes)));
  add(icmp);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::optional<NeighbourMessage> decode_ipv6(ByteSpan packet, ByteSpan frame) {
  const auto header = decode_grh(packet);
  if (!header || header->next_header != IPPROTO_ICMPV6 || header->hop_limit != kOnLink) return {};
  if (header->payload_length > packet.size() - kIpv6HeaderBytes) return {};
  const ByteSpan icmp = packet.subspan(kIpv6HeaderBytes, header->payload_length);
  if (icmp.size() < kFixedBytes || icmp[1] != std::byte{0}) return {};
  const auto type = std::to_integer<std::uint8_t>(icmp[0]);
  if (type != kSolicitation && type != kAdvertisement) return {};
  if (icmp_checksum(*header, icmp) != 0) return {};
  const bool is_question = type == kSolicitation;
  const auto target = SocketAddress::ipv6(load<16>(icmp.data() + 8));
  if (target.is_multicast()) return {};
  const bool is_unused = header->source == Gid{};
  const auto mac = mac_in(icmp.subspan(kFixedBytes), is_question ? kSourceOption : kTargetOption);
  if (!mac && !(is_question && is_unused)) return {};
  NeighbourMessage message{
      .kind = is_question ? NeighbourMessage::Kind::question : NeighbourMessage::Kind::answer,
      .sender_mac = mac.value_or(load<6>(frame.data() + 6)),
      .target = target};
  if (!is_unused) message.sender = SocketAddress::ipv6(header->source.bytes);
  // An advertisement tells of its target, whichever address it was sent from.
  if (!is_question) {
    message.sender = target;
    message.target = SocketAddress::ipv6(header->destination.bytes);
    message.to = load<6>(frame.data());
  }
  return message;
}

std::size_t encode_arp(const NeighbourMessage& message, std::byte* out) {
  const bool is_question = message.kind == NeighbourMessage::Kind::question;
  store_be(out, kArpStart << 16);
  store_be(out + 6, is_question ? kArpRequest : kArpReply);
  std::memcpy(out + 8, message.sender_mac.data(), 6);
  std::memcpy(out + 14, message.sender.ipv4_bytes().data(), 4);
  std::memcpy(out + 18, message.to.data(), 6);
  std::memcpy(out + 24, message.target.ipv4_bytes().data(), 4);
  return kArpBytes;
}

/// ff02::1:ffXX:XXXX, where those who have the address listen (RFC 4291, section 2.7.1).
Gid solicited_node(const SocketAddress& address) {
  Gid group{};
  const auto bytes = address.ipv6_bytes();
  group.bytes = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, bytes[13], bytes[14], bytes[15]};
  return group;
}

std::size_t encode_ipv6(const NeighbourMessage& message, std::byte* out) {
  const bool is_question = message.kind == NeighbourMessage::Kind::question;
  constexpr std::size_t kBytes = kFixedBytes + kOptionUnit;
  const Grh header{
      .payload_length = kBytes,
      .next_header = IPPROTO_ICMPV6,
      .hop_limit = kOnLink,
      .source = gid_of(message.sender),
      .destination = is_question ? solicited_node(message.target) : gid_of(message.target)};
  encode(header, std::span<std::byte, Grh::kSize>(out, Grh::kSize));
  std::byte* const icmp = out + kIpv6HeaderBytes;
  std::memset(icmp, 0, kBytes);
  icmp[0] = std::byte{is_question ? kSolicitation : kAdvertisement};
  if (!is_question) store_be(icmp + 4, kSolicitedOverrides);
  const SocketAddress& about = is_question ? message.target : message.sender;
  std::memcpy(icmp + 8, about.ipv6_bytes().data(), 16);
  icmp[kFixedBytes] = std::byte{is_question ? kSourceOption : kTargetOption};
  icmp[kFixedBytes + 1] = std::byte{1};
  std::memcpy(icmp + kFixedBytes + 2, message.sender_mac.data(), 6);
  store_be(icmp + 2, icmp_checksum(header, ByteSpan(icmp, kBytes)));
  return kIpv6HeaderBytes + kBytes;
}

}  // namespace

std::optional<NeighbourMessage> decode_neighbour_message(ByteSpan frame) {
  if (frame.size() < kEthernetHeaderBytes) return {};
  const ByteSpan packet = frame.subspan(kEthernetHeaderBytes);
  switch (load_be<std::uint16_t>(frame.data() + 12)) {
    case kTypeArp:
      return decode_arp(packet);
    case kTypeIpv6:
      return decode_ipv6(packet, frame);
    default:
      return {};
  }
}

std::size_t encode(const NeighbourMessage& message,
                   std::span<std::byte, NeighbourMessage::kSizeMax> out) {
  const bool is_ipv4 = message.target.is_ipv4();
  MacAddress to = message.to;
  if (message.kind == NeighbourMessage::Kind::question) {
    to = is_ipv4 ? kBroadcast
                 : ethernet_group(SocketAddress::ipv6(solicited_node(message.target).bytes));
  }
  std::memcpy(out.data(), to.data(), to.size());
  std::memcpy(out.data() + 6, message.sender_mac.data(), message.sender_mac.size());
  store_be(out.data() + 12, is_ipv4 ? kTypeArp : kTypeIpv6);
  std::byte* const packet = out.data() + kEthernetHeaderBytes;
  return kEthernetHeaderBytes +
         (is_ipv4 ? encode_arp(message, packet) : encode_ipv6(message, packet));
}

/// To a question from no address (duplicate address detection) the answer goes to all nodes, as RFC
/// 4861, section 7.2.4 says.
NeighbourMessage answer_to(const NeighbourMessage& question, const MacAddress& mac) {
  NeighbourMessage answer{.kind = NeighbourMessage::Kind::answer,
                          .sender_mac = mac,
                          .sender = question.target,
                          .target = question.sender,
                          .to = question.sender_mac};
  if (!question.sender.empty()) return answer;
  if (question.target.is_ipv4()) {
    answer.target = SocketAddress::ipv4({});
  } else {
    answer.target = SocketAddress::ipv6({0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    answer.to = ethernet_group(answer.target);
  }
  return answer;
}

MacAddress ethernet_group(const SocketAddress& group) {
  const auto bytes = group.ipv6_bytes();
  if (!group.is_ipv4()) return {0x33, 0x33, bytes[12], bytes[13], bytes[14], bytes[15]};
  return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(bytes[13] & 0x7f), bytes[14], bytes[15]};
}

}  // namespace verbatim::wire

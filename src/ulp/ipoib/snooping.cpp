#include "ulp/ipoib/snooping.h"

#include <cstring>

#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

using Visit = std::function<void(const SocketAddress& group, bool is_member)>;

/// Of one family: the numbers of its messages, and how long addresses are.
struct Family {
  std::uint8_t report, done, report_of_sources;
  std::size_t address_bytes;
  std::size_t group_at;  // Of reports without sources.
};
constexpr Family kIgmp4{0x16, 0x17, 0x22, 4, 4};
constexpr Family kMld{131, 132, 143, 16, 8};
constexpr std::uint8_t kIgmp1Report = 0x12;

SocketAddress address_at(const std::byte* at, const Family& family) {
  if (family.address_bytes == 4) {
    Ipv4 bytes;
    std::memcpy(bytes.data(), at, bytes.size());
    return SocketAddress::ipv4(bytes);
  }
  Ipv6 bytes;
  std::memcpy(bytes.data(), at, bytes.size());
  return SocketAddress::ipv6(bytes);
}

/// RFC 3376, section 4.2.12: types of group records.
std::optional<bool> membership(std::uint8_t type, std::size_t sources) {
  enum : std::uint8_t { kIsInclude = 1, kIsExclude, kToInclude, kToExclude, kAllow, kBlock };
  if (type == kIsExclude || type == kToExclude || type == kAllow) return true;
  if (type == kIsInclude || type == kToInclude) return sources > 0;
  return std::nullopt;  // Some sources less: others may be left.
}

void read_records(ByteSpan message, const Family& family, const Visit& visit) {
  constexpr std::size_t kCountAt = 6, kRecordsAt = 8, kRecordBytes = 4;
  auto count = load_be<std::uint16_t>(&message[kCountAt]);
  ByteSpan left = message.subspan(kRecordsAt);
  for (; count > 0 && left.size() >= kRecordBytes + family.address_bytes; --count) {
    const std::size_t sources = load_be<std::uint16_t>(&left[2]);
    const std::size_t bytes = kRecordBytes + (1 + sources) * family.address_bytes +
                              std::to_integer<std::size_t>(left[1]) * 4;
    if (bytes > left.size()) return;
    const auto group = address_at(&left[kRecordBytes], family);
    const auto is_member = membership(std::to_integer<std::uint8_t>(left[0]), sources);
    if (is_member && group.is_multicast()) visit(group, *is_member);
    left = left.subspan(bytes);
  }
}

void read_message(ByteSpan message, const Family& family, const Visit& visit) {
  constexpr std::size_t kHeaderBytes = 8;
  if (message.size() < kHeaderBytes) return;
  const auto type = std::to_integer<std::uint8_t>(message[0]);
  if (type == family.report_of_sources) return read_records(message, family, visit);
  const bool joins = type == family.report || (&family == &kIgmp4 && type == kIgmp1Report);
  if (!joins && type != family.done) return;
  if (message.size() < family.group_at + family.address_bytes) return;
  const auto group = address_at(&message[family.group_at], family);
  if (group.is_multicast()) visit(group, joins);
}

}  // namespace

void read_reports(ByteSpan packet, const Visit& visit) {
  const auto ip = decode_ip(packet);
  if (!ip || ip->is_fragment) return;
  if (ip->type == EtherType::ipv4 && ip->protocol == kIgmp)
    return read_message(ip->payload, kIgmp4, visit);
  if (ip->type == EtherType::ipv6 && ip->protocol == kIcmpv6)
    return read_message(ip->payload, kMld, visit);
}

GeneralQueries general_queries() {
  constexpr std::uint8_t kQuery = 0x11, kMldQuery = 130, kResponse = 1, kRobustness = 2;
  GeneralQueries queries{};
  // IPv4 with the router alert option (RFC 2113): 24 bytes, then 12 of IGMPv3. 224.0.0.1.
  auto& ipv4 = queries.ipv4;
  ipv4[0] = std::byte{0x46};
  store_be(&ipv4[2], std::uint16_t{36});
  ipv4[8] = std::byte{1};
  ipv4[9] = std::byte{kIgmp};
  ipv4[16] = std::byte{224}, ipv4[19] = std::byte{1};
  ipv4[20] = std::byte{0x94}, ipv4[21] = std::byte{4};
  store_be(&ipv4[10], checksum_of(sum_of(ByteSpan(ipv4).first(24))));
  ipv4[24] = std::byte{kQuery}, ipv4[25] = std::byte{kResponse};
  ipv4[32] = std::byte{kRobustness};
  store_be(&ipv4[26], checksum_of(sum_of(ByteSpan(ipv4).subspan(24))));
  // IPv6, from fe80::1 to ff02::1, with the option in a hop-by-hop header of 8: then 28 of MLDv2.
  auto& ipv6 = queries.ipv6;
  constexpr std::size_t kMldAt = kIpv6Bytes + 8;
  ipv6[0] = std::byte{0x60};
  store_be(&ipv6[4], std::uint16_t{36});
  ipv6[7] = std::byte{1};
  ipv6[8] = std::byte{0xfe}, ipv6[9] = std::byte{0x80}, ipv6[23] = std::byte{1};
  ipv6[24] = std::byte{0xff}, ipv6[25] = std::byte{2}, ipv6[39] = std::byte{1};
  ipv6[40] = std::byte{kIcmpv6};
  ipv6[42] = std::byte{5}, ipv6[43] = std::byte{2};  // Router alert: MLD; then two of padding.
  ipv6[46] = std::byte{1};
  ipv6[kMldAt] = std::byte{kMldQuery};
  ipv6[kMldAt + 5] = std::byte{100};  // Answer within 0.1 s.
  ipv6[kMldAt + 24] = std::byte{kRobustness};
  const auto ip = decode_ip(ipv6);
  const auto sum = pseudo_sum(ip->source, ip->destination, kIcmpv6, ip->payload.size());
  store_be(&ipv6[kMldAt + 2], checksum_of(sum_of(ip->payload, sum)));
  return queries;
}

}  // namespace verbatim::ulp::ipoib

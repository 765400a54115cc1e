#include <random>

#include <gtest/gtest.h>

#include "ulp/ipoib/bench_for_test.h"
#include "ulp/ipoib/snooping.h"
#include "ulp/ipoib/wire/arp.h"
#include "ulp/ipoib/wire/ip.h"
#include "ulp/ipoib/wire/neighbour_message.h"

namespace verbatim::ulp::ipoib {
namespace {

Packet bytes_of(std::string_view hex) {
  Packet bytes;
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

const HardwareAddress kAddress{
    .flags = 0x80,
    .qpn = Qpn(0x123456),
    .gid = Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x31, 0x78, 0xf2}}};

TEST(IpoibWire, HardwareAddressAsACardsInterfaceShowsIt) {
  EXPECT_EQ(kAddress.text(), "80:12:34:56:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f2");
}

TEST(IpoibWire, ArpOfRfc4391) {
  const Packet golden = bytes_of(
      "0020 0800 14 04 0001 80123456 fe80000000000000 0002c903003178f2 0a090001"
      "00000000 0000000000000000 0000000000000000 0a090002");
  const Arp arp{.operation = Arp::Operation::request,
                .sender = kAddress,
                .sender_ip = {10, 9, 0, 1},
                .target = {},
                .target_ip = {10, 9, 0, 2}};
  std::array<std::byte, Arp::kSize> bytes{};
  encode(arp, bytes);
  EXPECT_EQ(Packet(bytes.begin(), bytes.end()), golden);
  EXPECT_EQ(decode_arp(golden), arp);
  for (std::size_t size = 0; size < golden.size(); ++size)
    EXPECT_FALSE(decode_arp(ByteSpan(golden).first(size)));
  for (const std::size_t at : {1u, 3u, 4u, 5u, 6u, 7u}) {
    Packet wrong = golden;
    wrong[at] ^= std::byte{0x40};
    EXPECT_FALSE(decode_arp(wrong)) << at;
  }
}

TEST(IpoibWire, SolicitationOfRfc4391) {
  const NeighbourMessage message{.kind = NeighbourMessage::Kind::solicitation,
                                 .source = address("fe80::1").ipv6_bytes(),
                                 .destination = address("ff02::1:ff00:2").ipv6_bytes(),
                                 .target = address("fe80::2").ipv6_bytes(),
                                 .address = kAddress};
  std::array<std::byte, NeighbourMessage::kSizeMax> bytes;
  ASSERT_EQ(encode(message, bytes), bytes.size());
  const Packet golden = bytes_of(
      "60000000 0030 3a ff fe800000000000000000000000000001 ff0200000000000000000001ff000002"
      "8700 8773 00000000 fe800000000000000000000000000002"
      "01 03 0000 80123456 fe80000000000000 0002c903003178f2");
  EXPECT_EQ(Packet(bytes.begin(), bytes.end()), golden);
  EXPECT_EQ(decode_neighbour_message(golden), message);
  for (std::size_t bit = 0; bit < golden.size() * 8; ++bit) {
    if (bit < 32 + 16 && bit >= 4) continue;  // Traffic class, flow label and length say nothing.
    Packet wrong = golden;
    wrong[bit / 8] ^= std::byte{static_cast<std::uint8_t>(0x80 >> bit % 8)};
    EXPECT_FALSE(decode_neighbour_message(wrong)) << bit;
  }
}

/// Whatever comes is decoded without reading beyond it (sanitizers watch), or refused.
TEST(IpoibWire, RandomBytesAreHarmless) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    Packet packet(random() % 120);
    for (std::byte& byte : packet) byte = static_cast<std::byte>(random());
    if (!packet.empty() && i % 2 == 0)
      packet[0] = std::byte{i % 4 == 0 ? std::uint8_t{0x46} : std::uint8_t{0x60}};
    if (packet.size() > 10)
      packet[i % 4 == 0 ? 9 : 6] = std::byte{i % 4 == 0 ? kIgmp : std::uint8_t{0}};
    decode_arp(packet);
    decode_neighbour_message(packet);
    read_reports(packet, [](const SocketAddress&, bool) {});
  }
}

std::string reports(const Packet& packet) {
  std::string text;
  read_reports(packet, [&](const SocketAddress& group, bool is_member) {
    text += (is_member ? "+" : "-") + group.ip_text() + " ";
  });
  return text;
}

TEST(IpoibSnooping, ReportsOfLinux) {
  // IGMPv3: CHANGE_TO_EXCLUDE 239.1.2.3 and CHANGE_TO_INCLUDE 239.1.2.4 without sources.
  const std::string ipv4 = "46c00000 0000 4000 01 02 0000 0a090001 e0000016 94040000";
  Packet igmp = bytes_of(ipv4 + "22000000 0000 0002 04000000 ef010203 03000000 ef010204");
  igmp[3] = std::byte{static_cast<std::uint8_t>(igmp.size())};
  EXPECT_EQ(reports(igmp), "+239.1.2.3 -239.1.2.4 ");
  igmp[31] = std::byte{9};  // More records than there are.
  EXPECT_EQ(reports(igmp), "+239.1.2.3 -239.1.2.4 ");
  Packet second = bytes_of(ipv4 + "16000000 ef010203");
  second[3] = std::byte{static_cast<std::uint8_t>(second.size())};
  EXPECT_EQ(reports(second), "+239.1.2.3 ");
  // MLDv2 behind a hop-by-hop header: MODE_IS_EXCLUDE ff15::77.
  const Packet mld = bytes_of(
      "60000000 0024 00 01 fe800000000000000000000000000001 ff020000000000000000000000000016"
      "3a00050200000100 8f000000 00000001 02000000 ff150000000000000000000000000077");
  EXPECT_EQ(reports(mld), "+ff15::77 ");
}

TEST(IpoibSnooping, QueriesAreWholeAndTheirChecksumsRight) {
  const GeneralQueries queries = general_queries();
  EXPECT_EQ(checksum_of(sum_of(ByteSpan(queries.ipv4).first(24))), 0);
  EXPECT_EQ(checksum_of(sum_of(ByteSpan(queries.ipv4).subspan(24))), 0);
  const auto ip = decode_ip(queries.ipv6);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->protocol, kIcmpv6);
  const auto sum = pseudo_sum(ip->source, ip->destination, kIcmpv6, ip->payload.size());
  EXPECT_EQ(checksum_of(sum_of(ip->payload, sum)), 0);
}

}  // namespace
}  // namespace verbatim::ulp::ipoib

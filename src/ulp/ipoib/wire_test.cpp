#include <random>

#include <gtest/gtest.h>

#include "ulp/ipoib/bench_for_test.h"
#include "ulp/ipoib/snooping.h"
#include "ulp/ipoib/wire/arp.h"
#include "ulp/ipoib/wire/connected_peer.h"
#include "ulp/ipoib/wire/ip.h"
#include "ulp/ipoib/wire/neighbour_message.h"
#include "ulp/ipoib/wire/too_long.h"

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

TEST(IpoibWire, PrivateDataOfRfc4755) {
  const ConnectedPeer peer{.datagrams = Qpn(0x123456), .receive_bytes = 65524};
  const auto bytes = encode(peer);
  const Packet golden = bytes_of("00123456 0000fff4");
  EXPECT_EQ(Packet(bytes.begin(), bytes.end()), golden);
  EXPECT_EQ(decode_connected_peer(golden), peer);
  EXPECT_EQ(decode_connected_peer(golden)->mtu(), kConnectedMtu);
  EXPECT_EQ(decode_connected_peer(bytes_of("ff123456 0000fff4 0000")), peer);
  EXPECT_FALSE(decode_connected_peer(ByteSpan(golden).first(7)));
  EXPECT_FALSE(decode_connected_peer(bytes_of("00123456 00000004")));
  EXPECT_EQ(service_of(Qpn(0x48)), 0x1000'0000'0000'0048u);
  EXPECT_EQ(service_of(Qpn(0x48), kServiceOfIetf), 0x0100'0000'0000'0048u);
}

Packet too_long(ByteSpan packet, std::string_view router, std::uint32_t mtu) {
  std::array<std::byte, kTooLongBytesMax> bytes;
  const std::size_t length = encode_too_long(packet, address(router), mtu, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)};
}

/// An UDP packet with DF, of this length, whose checksum nobody looks at.
Packet udp_packet(std::size_t bytes) {
  Packet packet = bytes_of("45000000 0000 4000 40 11 0000 0a090001 0a090002 12345678 00000000");
  packet.resize(bytes);
  store_be(&packet[2], static_cast<std::uint16_t>(bytes));
  return packet;
}

/// Word by word, as RFC 1071 tells it.
TEST(IpoibWire, SumOfAllLengths) {
  std::mt19937 random(1);
  for (std::size_t length = 0; length < 200; ++length) {
    Packet bytes(length + 1);
    for (std::byte& one : bytes) one = random() % 4 == 0 ? std::byte{0xff} : std::byte(random());
    const ByteSpan odd = ByteSpan(bytes).subspan(1);  // Not aligned, either.
    std::uint32_t sum = 0x1234;
    for (std::size_t i = 0; i < length; ++i)
      sum += std::to_integer<std::uint32_t>(odd[i]) << (i % 2 == 0 ? 8 : 0);
    EXPECT_EQ(checksum_of(sum_of(odd, 0x1234)), checksum_of(sum)) << length;
  }
  EXPECT_EQ(checksum_of(sum_of(Packet(65536, std::byte{0xff}))), 0);
}

TEST(IpoibWire, FragmentationNeededOfRfc1191) {
  const Packet packet = udp_packet(3000);
  const Packet said = too_long(packet, "10.9.0.2", 2044);
  ASSERT_EQ(said.size(), 576u);
  EXPECT_EQ(Packet(said.begin(), said.begin() + 28),
            bytes_of("45c00240 0000 0000 40 01 63e9 0a090002 0a090001 0304 a774 0000 07fc"));
  EXPECT_EQ(checksum_of(sum_of(ByteSpan(said).first(kIpv4Bytes))), 0);
  EXPECT_EQ(checksum_of(sum_of(ByteSpan(said).subspan(kIpv4Bytes))), 0);
  EXPECT_EQ(Packet(said.begin() + 28, said.end()), Packet(packet.begin(), packet.begin() + 548));
}

TEST(IpoibWire, PacketTooBigOfRfc8201) {
  Packet packet = bytes_of(
      "60000000 0bb8 11 40 fe800000000000000000000000000001 fe800000000000000000000000000002");
  packet.resize(3040);
  const Packet said = too_long(packet, "fe80::2", 2044);
  const auto ip = decode_ip(said);
  ASSERT_TRUE(ip);
  EXPECT_EQ(said.size(), kTooLongBytesMax);
  EXPECT_EQ(ip->source, address("fe80::2"));
  EXPECT_EQ(ip->destination, address("fe80::1"));
  EXPECT_EQ(checksum_of(sum_of(
                ip->payload, pseudo_sum(ip->source, ip->destination, kIcmpv6, ip->payload.size()))),
            0);
  EXPECT_EQ(Packet(ip->payload.begin(), ip->payload.begin() + 2), bytes_of("0200"));
  EXPECT_EQ(load_be<std::uint32_t>(&ip->payload[4]), 2044u);
}

TEST(IpoibWire, OfErrorsFragmentsAndNobodysPacketsNothingIsSaid) {
  const auto is_answered = [](std::size_t at, std::uint8_t value) {
    Packet packet = udp_packet(3000);
    packet[at] = std::byte{value};
    return !too_long(packet, "10.9.0.2", 2044).empty();
  };
  EXPECT_TRUE(is_answered(0, 0x45));
  EXPECT_FALSE(is_answered(7, 1));      // Not the first fragment.
  EXPECT_FALSE(is_answered(12, 0xe0));  // From a group.
  Packet packet = udp_packet(3000);
  packet[9] = std::byte{kIcmp};
  for (const auto& [type, is_error] : {std::pair{0, false}, {3, true}, {8, false}, {11, true}}) {
    packet[20] = std::byte{static_cast<std::uint8_t>(type)};
    EXPECT_EQ(too_long(packet, "10.9.0.2", 2044).empty(), is_error) << type;
  }
  EXPECT_TRUE(too_long(ByteSpan(packet).first(19), "10.9.0.2", 2044).empty());
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
    decode_connected_peer(packet);
    too_long(packet, i % 4 == 0 ? "10.9.0.2" : "fe80::2", 2044);
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

#include "wire/mad/management_packet.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::wire {
namespace {

const IpFlow kFlow{.source = gid_of(SocketAddress::ipv4({10, 0, 0, 1})),
                   .destination = gid_of(SocketAddress::ipv4({10, 0, 0, 2})),
                   .source_port = 50'000};

std::array<std::byte, kMadBytes> some_mad() {
  std::array<std::byte, kMadBytes> mad;
  for (std::size_t i = 0; i < mad.size(); ++i) mad[i] = static_cast<std::byte>(i * 7);
  return mad;
}

std::vector<std::byte> packet_of(const IpFlow& flow) {
  const ManagementPacket packet = encode_management_packet(flow, Psn(5), some_mad());
  return {packet.bytes().begin(), packet.bytes().end()};
}

std::optional<ManagementDatagram> decode(const IcrcSeed& seed, ByteSpan bytes) {
  if (!verify_icrc(seed, bytes, 0)) return std::nullopt;
  const auto packet = decode_packet(bytes.first(bytes.size() - kIcrcBytes));
  return packet ? management_datagram_of(*packet) : std::nullopt;
}

TEST(ManagementPacket, ComesOutAsItWentIn) {
  const auto packet = packet_of(kFlow);
  const auto decoded = decode(IcrcSeed(kFlow), packet);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::ranges::equal(decoded->mad, some_mad()));
  EXPECT_EQ(decoded->source_qpn, kManagementQpn);
}

TEST(ManagementPacket, OfVersion1BeginsWithItsGrh) {
  IpFlow flow = kFlow;
  flow.source_port = flow.destination_port = 0;
  auto frame = packet_of(flow);
  frame.resize(frame.size() + 6);  // Ethernet's padding.
  const auto found = decode_grh_packet(frame);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->grh.source, flow.source);
  EXPECT_EQ(found->grh.destination, flow.destination);
  const auto decoded = decode(IcrcSeed(flow), found->packet);
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::ranges::equal(decoded->mad, some_mad()));
  EXPECT_EQ(decoded->source_qpn, kManagementQpn);
}

TEST(ManagementPacket, NoDamagePassesButThatOfBytesThatRoutersChange) {
  // Over IPv6: over IPv4 some damage passes as another identification (docs/decisions.md).
  const IpFlow flow{.source = gid_of(SocketAddress::parse("fd00::1").value()),
                    .destination = gid_of(SocketAddress::parse("fd00::2").value())};
  const auto good = packet_of(flow);
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto packet = good;
    packet[i] ^= std::byte{0x10};
    // Byte 4 of the BTH has FECN and BECN, which the ICRC does not cover.
    EXPECT_EQ(decode(IcrcSeed(flow), packet).has_value(), i == 4) << i;
  }
}

TEST(ManagementPacket, OtherQueuePairsKeysAndLengthsAreRefused) {
  const auto good = packet_of(kFlow);
  const auto accepts = [](auto packet) {
    const std::size_t covered = packet.size() - kIcrcBytes;
    const auto icrc = IcrcSeed(kFlow).compute(std::span(packet).first(covered), 0);
    store_icrc(icrc, std::span(packet).template last<kIcrcBytes>());
    return decode(IcrcSeed(kFlow), packet).has_value();
  };
  ASSERT_TRUE(accepts(good));
  for (const std::size_t changed : {7, 12, 15}) {  // Destination, two bytes of the Q_Key.
    auto packet = good;
    packet[changed] ^= std::byte{0x02};
    EXPECT_FALSE(accepts(packet)) << changed;
  }
  EXPECT_FALSE(accepts(std::vector(good.begin(), good.end() - 4)));
}

}  // namespace
}  // namespace verbatim::wire

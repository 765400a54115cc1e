#include "fabric/keeper/management_packet.h"

#include <gtest/gtest.h>

#include "fabric/data/image/records.h"
#include "wire/net/icrc.h"

namespace verbatim::fabric {
namespace {

ManagementDatagram datagram(Qpn to) {
  ManagementDatagram made{.path = {.dlid = Lid{7}, .slid = Lid{9}},
                          .source_qp = Qpn(1),
                          .destination_qp = to,
                          .qkey = 0x8001'0000};
  made.mad.fill(std::byte{0x5a});
  return made;
}

TEST(ManagementPacket, IsAUdPacketWithTheDatagram) {
  const ManagementPacket packet = packet_of(datagram(Qpn(1)));
  const ByteSpan bytes = packet.bytes();
  const auto lrh = wire::decode_lrh(bytes);
  ASSERT_TRUE(lrh);
  EXPECT_EQ(*lrh, (wire::Lrh{.dlid = Lid{7},
                             .length_words = static_cast<std::uint16_t>(bytes.size() / 4),
                             .slid = Lid{9}}));
  EXPECT_TRUE(wire::infiniband_icrc(bytes));
  const auto from_bth = bytes.subspan(wire::Lrh::kSize);
  const auto decoded = wire::decode_packet(from_bth.first(from_bth.size() - wire::kIcrcBytes));
  ASSERT_TRUE(decoded);
  const auto found = wire::management_datagram_of(*decoded);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->source_qpn, Qpn(1));
  EXPECT_EQ(found->mad[0], std::byte{0x5a});
}

TEST(ManagementPacket, SubnetManagementHasItsLane) {
  EXPECT_EQ(packet_of(datagram(Qpn(0))).lane, kManagementLane);
  EXPECT_EQ(packet_of(datagram(Qpn(1))).lane, 0u);
}

TEST(ManagementPacket, AGlobalRouteHasAGrh) {
  ManagementDatagram made = datagram(Qpn(1));
  const std::size_t without = packet_of(made).bytes().size();
  made.path.grh.emplace(GlobalRoute{.hop_limit = 3});
  const ManagementPacket packet = packet_of(made);
  EXPECT_EQ(packet.bytes().size(), without + wire::Grh::kSize);
  const auto grh = wire::decode_grh(packet.bytes().subspan(wire::Lrh::kSize));
  ASSERT_TRUE(grh);
  EXPECT_EQ(grh->payload_length, wire::kManagementPacketBytes);
  EXPECT_TRUE(wire::infiniband_icrc(packet.bytes()));
}

TEST(ManagementPacket, IsReadAsTheSameDatagram) {
  for (const Qpn to : {Qpn(0), Qpn(1), Qpn(0x4003)}) {  // The last is a program's.
    ManagementDatagram made = datagram(to);
    made.path.service_level = 3;
    EXPECT_EQ(datagram_of(packet_of(made).bytes()), made);
    made.path.grh.emplace(GlobalRoute{.flow_label = 9, .traffic_class = 5, .hop_limit = 3});
    made.pkey = 0x7fff;
    const ManagementPacket packet = packet_of(made);
    EXPECT_EQ(datagram_of(packet.bytes()), made);
    for (std::size_t size = 0; size < packet.size; ++size) {
      EXPECT_FALSE(datagram_of(packet.bytes().first(size)));
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric

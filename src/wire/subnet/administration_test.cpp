#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/fields_test_util.h"
#include "wire/subnet/administration_packet.h"
#include "wire/subnet/multicast_record.h"
#include "wire/subnet/service_record.h"

namespace verbatim::wire {
namespace {

TEST(MulticastRecord, DecodesWhatItEncodes) { expect_round_trip<MulticastRecord>(); }
TEST(ServiceRecord, DecodesWhatItEncodes) { expect_round_trip<ServiceRecord>(); }

/// The group of all IPv4 hosts, as opensm makes it.
TEST(MulticastRecord, GoldenBytesOfABroadcastGroup) {
  EXPECT_EQ(
      encoded_hex(MulticastRecord{
          .group = {{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
          .port = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 1}},
          .qkey = 0x0b1b,
          .lid = 0xc000,
          .mtu_selector = 2,
          .mtu = 4,
          .pkey = 0xffff,
          .rate_selector = 2,
          .rate = 3,
          .life_time_selector = 2,
          .life_time = 18,
          .service_level = 5,
          .flow_label = 0x12345,
          .hop_limit = 7,
          .scope = 2,
          .join_state = kFullMember}),
      "ff12401bffff000000000000ffffffff"
      "fe800000000000000010000000000001"
      "00000b1b"
      "c000"
      "84"
      "00"
      "ffff"
      "83"
      "92"
      "51234507"
      "21"
      "000000");
}

TEST(AdministrationPacket, DecodesWhatItEncodes) {
  AdministrationPacket packet{.method = MadMethod::remove,
                              .status = 0x0700,
                              .transaction = 0x1122334455667788,
                              .attribute = AdministrationAttribute::multicast_record,
                              .components = 0x10003};
  const MulticastRecord record{.lid = 0xc001, .join_state = kFullMember};
  set_data(packet, record);
  std::array<std::byte, kMadBytes> bytes;
  encode(packet, bytes);
  EXPECT_EQ(decode_administration_packet(bytes), packet);
  EXPECT_EQ(data_as<MulticastRecord>(packet), record);
  EXPECT_EQ(to_hex(std::span(bytes).first(24)),
            "0103021507000000112233445566778800380000"
            "00000000");
  EXPECT_EQ(to_hex(std::span(bytes).subspan(48, 8)), "0000000000010003");
}

TEST(AdministrationPacket, OfAnotherClassOrOfManySegmentsIsRefused) {
  std::array<std::byte, kMadBytes> bytes;
  encode(AdministrationPacket{.method = MadMethod::get_response}, bytes);
  EXPECT_EQ(decode_administration_packet(std::span(bytes).first(255)).error(),
            WireError::mad_length);
  bytes[26] = std::byte{1};  // RMPP is active.
  EXPECT_EQ(decode_administration_packet(bytes).error(), WireError::mad_length);
  bytes[26] = {};
  bytes[2] = std::byte{1};
  EXPECT_EQ(decode_administration_packet(bytes).error(), WireError::mad_class);
  bytes[2] = std::byte{2};
  bytes[1] = std::byte{4};
  EXPECT_EQ(decode_administration_packet(bytes).error(), WireError::mad_class);
}

}  // namespace
}  // namespace verbatim::wire

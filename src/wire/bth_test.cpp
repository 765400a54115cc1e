#include "wire/bth.h"

#include <gtest/gtest.h>

#include "wire/hex_for_test.h"

namespace verbatim::wire {
namespace {

Bth every_field() {
  return {.opcode = opcode_of(Service::uc, Verb::write, Position::only, true),
          .solicited_event = true,
          .migrated = false,
          .pad_count = 2,
          .pkey = PKey{0x8001},
          .dest_qp = Qpn(0x123456),
          .ack_request = true,
          .psn = Psn(0xfedcba)};
}

TEST(Bth, GoldenBytes) {
  EXPECT_EQ(encoded_hex(every_field()),
            "2ba0800100123456"
            "80fedcba");
  EXPECT_EQ(encoded_hex(Bth{}),
            "0040ffff00000000"
            "00000000");
}

TEST(Bth, DecodesWhatItEncodes) {
  EXPECT_EQ(decode_bth(from_hex("2ba0800100123456 80fedcba")), every_field());
  EXPECT_EQ(decode_bth(from_hex("0040ffff00000000 00000000")), Bth{});
}

TEST(Bth, EachFlagHasItsOwnBit) {
  EXPECT_TRUE(decode_bth(from_hex("0080ffff00000000 00000000"))->solicited_event);
  EXPECT_FALSE(decode_bth(from_hex("007fffff00000000 00000000")).has_value());
  EXPECT_FALSE(decode_bth(from_hex("0070ffff00000000 00000000"))->solicited_event);
  EXPECT_EQ(decode_bth(from_hex("0030ffff00000000 00000000"))->pad_count, 3);
  EXPECT_FALSE(decode_bth(from_hex("0030ffff00000000 00000000"))->migrated);
}

TEST(Bth, ReservedBitsAndCongestionBitsAreIgnored) {
  EXPECT_EQ(decode_bth(from_hex("2ba08001ff123456 fffedcba")), every_field());
}

TEST(Bth, C9_5_OtherTransportVersionIsRefused) {
  EXPECT_EQ(decode_bth(from_hex("0041ffff00000000 00000000")).error(),
            WireError::transport_version);
}

TEST(Bth, TooShort) {
  const auto bytes = from_hex("2ba0800100123456 80fedc");
  EXPECT_EQ(decode_bth(bytes).error(), WireError::too_short);
  EXPECT_EQ(decode_bth({}).error(), WireError::too_short);
}

TEST(Bth, UnknownOpcodeIsKept) {
  EXPECT_EQ(decode_bth(from_hex("8140ffff00000011 00000000"))->opcode, Opcode{0x81});
}

}  // namespace
}  // namespace verbatim::wire

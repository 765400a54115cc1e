#include "wire/ib/bth.h"

#include <expected>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

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

std::expected<Bth, WireError> decoded(ByteSpan packet) {
  Bth bth{.opcode = Opcode{0xff}, .solicited_event = true, .ack_request = true};
  if (const auto wrong = decode_bth(packet, bth)) return std::unexpected(*wrong);
  return bth;
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
  EXPECT_EQ(decoded(from_hex("2ba0800100123456 80fedcba")), every_field());
  EXPECT_EQ(decoded(from_hex("0040ffff00000000 00000000")), Bth{});
}

TEST(Bth, EachFlagHasItsOwnBit) {
  EXPECT_TRUE(decoded(from_hex("0080ffff00000000 00000000"))->solicited_event);
  EXPECT_FALSE(decoded(from_hex("007fffff00000000 00000000")).has_value());
  EXPECT_FALSE(decoded(from_hex("0070ffff00000000 00000000"))->solicited_event);
  EXPECT_EQ(decoded(from_hex("0030ffff00000000 00000000"))->pad_count, 3);
  EXPECT_FALSE(decoded(from_hex("0030ffff00000000 00000000"))->migrated);
}

TEST(Bth, ReservedBitsAndCongestionBitsAreIgnored) {
  EXPECT_EQ(decoded(from_hex("2ba08001ff123456 fffedcba")), every_field());
}

TEST(Bth, C9_5_OtherTransportVersionIsRefused) {
  EXPECT_EQ(decoded(from_hex("0041ffff00000000 00000000")).error(), WireError::transport_version);
}

TEST(Bth, TooShort) {
  const auto bytes = from_hex("2ba0800100123456 80fedc");
  EXPECT_EQ(decoded(bytes).error(), WireError::too_short);
  EXPECT_EQ(decoded({}).error(), WireError::too_short);
}

TEST(Bth, UnknownOpcodeIsKept) {
  EXPECT_EQ(decoded(from_hex("8140ffff00000011 00000000"))->opcode, Opcode{0x81});
}

}  // namespace
}  // namespace verbatim::wire

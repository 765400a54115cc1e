#include "wire/net/lrh.h"

#include <array>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

constexpr Lrh kExample{.virtual_lane = 7,
                       .service_level = 1,
                       .next = Lrh::Next::bth,
                       .dlid = Lid{0x375c},
                       .length_words = 14,
                       .slid = Lid{0x17d2}};

TEST(Lrh, GoldenBytesOfTheSpecificationsExample) {
  EXPECT_EQ(encoded_hex(kExample), "7012375c000e17d2");
  EXPECT_EQ(decode_lrh(from_hex("7012375c000e17d2")).value(), kExample);
}

TEST(Lrh, ReservedBitsAreIgnored) {
  std::array<std::byte, Lrh::kSize> bytes;
  encode(kExample, bytes);
  bytes[1] |= std::byte{0x0c};
  bytes[4] |= std::byte{0xf8};
  EXPECT_EQ(decode_lrh(bytes).value(), kExample);
}

TEST(Lrh, ShortOnesAndOtherVersionsAreRefused) {
  std::array<std::byte, Lrh::kSize> bytes;
  encode(kExample, bytes);
  EXPECT_EQ(decode_lrh(std::span(bytes).first(7)).error(), WireError::too_short);
  bytes[0] |= std::byte{1};
  EXPECT_EQ(decode_lrh(bytes).error(), WireError::link_version);
}

}  // namespace
}  // namespace verbatim::wire

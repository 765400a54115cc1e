#include "wire/net/vcrc.h"

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

std::string stored(ByteSpan bytes) {
  Vcrc crc;
  crc.update(bytes);
  std::array<std::byte, kVcrcBytes> out;
  store_vcrc(crc.value(), out);
  EXPECT_EQ(load_vcrc(out), crc.value());
  return to_hex(out);
}

// The golden values come from the specification's words, computed bit by bit by a script: no other
// implementation has confirmed them.
TEST(Vcrc, GoldenValues) {
  EXPECT_EQ(stored(from_hex("7012375c000e17d2 0a2024870087b1b3000dec2a"
                            "01710a1c015d400238f27a050000000e"
                            "bb884d85fd5cfba4728bc0690ed40000 9625b75a")),
            "45fa");
  EXPECT_EQ(stored(from_hex("313233343536373839")), "3d0a");
}

TEST(Vcrc, OfPiecesIsThatOfTheWhole) {
  const auto bytes = from_hex("313233343536373839");
  Vcrc whole, pieces;
  whole.update(bytes);
  pieces.update(ByteSpan(bytes).first(4));
  pieces.update(ByteSpan(bytes).subspan(4));
  EXPECT_EQ(whole.value(), pieces.value());
}

TEST(Vcrc, EveryDamagedBitShows) {
  const auto good = from_hex("7012375c000e17d20a2024870087b1b3000dec2a");
  Vcrc right;
  right.update(good);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto damaged = good;
    damaged[bit / 8] ^= std::byte{1} << (bit & 7);
    Vcrc wrong;
    wrong.update(damaged);
    EXPECT_NE(wrong.value(), right.value()) << bit;
  }
}

}  // namespace
}  // namespace verbatim::wire

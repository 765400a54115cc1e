#include "base/bytes.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

constexpr std::array<std::byte, 9> kBytes{std::byte{0xff}, std::byte{0x11}, std::byte{0x22},
                                          std::byte{0x33}, std::byte{0x44}, std::byte{0x55},
                                          std::byte{0x66}, std::byte{0x77}, std::byte{0x88}};

TEST(Bytes, LoadsAreBigEndianAtAnyAlignment) {
  EXPECT_EQ(load_be<std::uint8_t>(&kBytes[1]), 0x11);
  EXPECT_EQ(load_be<std::uint16_t>(&kBytes[1]), 0x1122);
  EXPECT_EQ(load_be24(&kBytes[1]), 0x112233u);
  EXPECT_EQ(load_be<std::uint32_t>(&kBytes[1]), 0x11223344u);
  EXPECT_EQ(load_be<std::uint64_t>(&kBytes[1]), 0x1122334455667788u);
}

TEST(Bytes, StoresAreReadBackAndStayWithinTheirWidth) {
  std::array<std::byte, 10> out{};
  store_be(&out[1], std::uint64_t{0x1122334455667788});
  EXPECT_TRUE(std::equal(out.begin() + 1, out.begin() + 9, kBytes.begin() + 1));
  EXPECT_EQ(out[9], std::byte{0});
  out.fill(std::byte{0});
  store_be24(&out[1], 0xaa112233);
  EXPECT_EQ(load_be<std::uint32_t>(&out[0]), 0x00112233u);
  EXPECT_EQ(out[4], std::byte{0});
}

TEST(Bytes, ToBigEndianIsItsOwnInverse) {
  EXPECT_EQ(to_big_endian(to_big_endian(0x11223344u)), 0x11223344u);
  EXPECT_EQ(to_big_endian(std::uint8_t{7}), 7);
}

}  // namespace
}  // namespace verbatim

#include "base/types.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(Psn, WrapsAt24Bits) {
  EXPECT_EQ(Psn(0xffffff) + 1, Psn(0));
  EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
  EXPECT_EQ(Psn(0x1000002), Psn(2));
}

TEST(Psn, DistanceIsSigned) {
  EXPECT_EQ(distance(Psn(5), Psn(5)), 0);
  EXPECT_EQ(distance(Psn(0xfffffe), Psn(1)), 3);
  EXPECT_EQ(distance(Psn(1), Psn(0xfffffe)), -3);
}

TEST(Psn, HalfOfTheSpaceIsAhead) {
  EXPECT_EQ(distance(Psn(0), Psn(0x7fffff)), 0x7fffff);
  EXPECT_EQ(distance(Psn(0), Psn(0x800000)), -0x800000);
}

TEST(Qpn, Has24Bits) {
  EXPECT_EQ(Qpn(0x12345678).value(), 0x345678u);
  EXPECT_EQ(Qpn(0xffffffff), kMulticastQpn);
}

constexpr Gid gid(std::initializer_list<std::uint8_t> first, std::uint8_t last) {
  Gid value;
  std::size_t i = 0;
  for (const std::uint8_t byte : first) value.bytes[i++] = byte;
  value.bytes[15] = last;
  return value;
}

TEST(Gid, Kinds) {
  constexpr Gid kMapped = gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10}, 1);
  EXPECT_TRUE(kMapped.is_ipv4_mapped());
  EXPECT_FALSE(kMapped.is_multicast());
  EXPECT_FALSE(gid({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 1).is_ipv4_mapped());
  EXPECT_FALSE(gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff}, 1).is_ipv4_mapped());
  EXPECT_TRUE(gid({0xfe, 0x80}, 1).is_link_local());
  EXPECT_TRUE(gid({0xfe, 0xbf}, 1).is_link_local());
  EXPECT_FALSE(gid({0xfe, 0xc0}, 1).is_link_local());
  EXPECT_TRUE(gid({0xff, 0x02}, 1).is_multicast());
  EXPECT_TRUE(gid({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239}, 1).is_multicast());
  EXPECT_FALSE(gid({0xfd}, 1).is_multicast());
  EXPECT_TRUE(Gid{}.is_zero());
  EXPECT_FALSE(gid({}, 1).is_zero());
}

TEST(Mtu, Bytes) {
  EXPECT_EQ(bytes_of(Mtu::k256), 256u);
  EXPECT_EQ(bytes_of(Mtu::k512), 512u);
  EXPECT_EQ(bytes_of(Mtu::k1024), 1024u);
  EXPECT_EQ(bytes_of(Mtu::k2048), 2048u);
  EXPECT_EQ(bytes_of(Mtu::k4096), 4096u);
}

}  // namespace
}  // namespace verbatim

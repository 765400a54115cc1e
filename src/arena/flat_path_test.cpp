#include "arena/flat_path.h"

#include <gtest/gtest.h>

namespace verbatim::arena {
namespace {

SocketAddress peer(std::uint16_t port) { return SocketAddress::ipv4({10, 0, 0, 2}, port); }

GlobalRoute route() {
  return {
      .destination = gid_of(peer(0)), .flow_label = 0x12345, .traffic_class = 6, .hop_limit = 9};
}

TEST(FlatPath, HoldsEachKindOfPath) {
  const Path paths[] = {
      RoceV2Path{peer(49'152), route()},
      RoceV2Path{SocketAddress::parse("2001:db8::1", kRocePort).value(),
                 {.destination = gid_of(SocketAddress::parse("2001:db8::1").value())}},
      RoceV1Path{peer(0), route()},
      StreamPath{peer(7174)},
      InfinibandPath{Lid{5}, Lid{0x13}, 3, 7, 2, std::nullopt},
      InfinibandPath{Lid{0xbfff}, Lid{1}, 0, 0, 1, route()}};
  for (const Path& path : paths) {
    const auto back = path_of(flat_path_of(path));
    ASSERT_TRUE(back) << path_text(path);
    EXPECT_TRUE(*back == path) << path_text(path) << ", " << path_text(*back);
  }
}

TEST(FlatPath, ALinkLocalDestinationIsItself) {
  for (const char* const text : {"fe80::1%2", "fe80::aff:fe00:2%3"}) {  // The GID of 10.0.0.2, too.
    const auto address = SocketAddress::parse(text, kRocePort).value();
    EXPECT_EQ(address_of(path_of(flat_path_of(roce_path(address))).value()), address);
  }
}

TEST(FlatPath, WhatIsNoPathIsRefused) {
  EXPECT_FALSE(path_of({}));
  FlatPath record = flat_path_of(StreamPath{peer(1)});
  record.kind = static_cast<PathKind>(0xee);
  EXPECT_FALSE(path_of(record));
  record = flat_path_of(RoceV2Path{peer(1), {}});
  record.destination = {};
  EXPECT_FALSE(path_of(record));
}

TEST(PeerName, AFullMemberIsKnownByItsLidsAndPKey) {
  const PeerName limited = infiniband_name(Lid{3}, Lid{5}, PKey{0x0007});
  const PeerName full = infiniband_name(Lid{3}, Lid{5}, PKey{0x8007});
  EXPECT_FALSE(limited == full);
  EXPECT_TRUE(as_full_member(limited) == full);
  EXPECT_TRUE(as_full_member(full) == full);
  for (const PeerName& other : {infiniband_name(Lid{4}, Lid{5}, PKey{0x8007}),
                                infiniband_name(Lid{3}, Lid{6}, PKey{0x8007}),
                                infiniband_name(Lid{5}, Lid{3}, PKey{0x8007})}) {
    EXPECT_FALSE(other == full);
    EXPECT_FALSE(have_same_lids(other, full));
  }
  EXPECT_TRUE(have_same_lids(infiniband_name(Lid{3}, Lid{5}, PKey{0x8001}), full));
  EXPECT_FALSE(have_same_lids({}, {}));
}

}  // namespace
}  // namespace verbatim::arena

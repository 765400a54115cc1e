#include "link/ethernet/neighbour.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <net/if.h>

namespace verbatim::link {
namespace {

SocketAddress address(std::string_view text) { return SocketAddress::parse(text).value(); }

TEST(Neighbour, AnAddressOfThisMachineIsBehindTheLoopbackInterface) {
  for (const char* text : {"127.0.0.1", "127.77.5.9", "::1"}) {
    const auto place = resolve_link_address(address(text), 0, 0);
    ASSERT_TRUE(place) << place.error().text;
    EXPECT_EQ(place->interface_index, if_nametoindex("lo"));
    EXPECT_EQ(place->mac, MacAddress{});
  }
}

TEST(Neighbour, AGroupHasAnAddressOfItsOwn) {
  const auto place = resolve_link_address(address("239.1.2.3"), 7, 0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->interface_index, 7u);
  EXPECT_EQ(place->mac, (MacAddress{0x33, 0x33, 239, 1, 2, 3}));
  EXPECT_EQ(multicast_mac(address("ff05::1:2")), (MacAddress{0x33, 0x33, 0, 1, 0, 2}));
}

TEST(Neighbour, WhatNoRouteLeadsToIsRefused) {
  const auto place =
      resolve_link_address(address("240.0.0.1"), 0, kSecond);  // Reserved (RFC 1112).
  ASSERT_FALSE(place);
}

}  // namespace
}  // namespace verbatim::link

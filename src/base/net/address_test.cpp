#include "base/net/address.h"

#include <gtest/gtest.h>
#include <net/if.h>

namespace verbatim {
namespace {

SocketAddress address(std::string_view text) {
  auto result = SocketAddress::parse(text, kRocePort);
  EXPECT_TRUE(result) << text;
  return result.value_or(SocketAddress());
}

TEST(SocketAddress, TextIsReadBack) {
  for (const std::string text : {"10.1.2.3", "127.0.0.1", "fe80::1%1", "2001:db8::5", "::1"}) {
    EXPECT_EQ(address(text).ip_text(), text);
  }
  EXPECT_EQ(fmt::format("{}", address("10.1.2.3")), "10.1.2.3:4791");
  EXPECT_EQ(fmt::format("{}", address("fe80::1%1")), "[fe80::1%1]:4791");
  EXPECT_EQ(fmt::format("{}", SocketAddress()), "none:0");
}

TEST(SocketAddress, InterfaceNameIsAScope) {
  EXPECT_EQ(address("fe80::1%lo").scope_id(), if_nametoindex("lo"));
}

TEST(SocketAddress, OtherTextIsRefused) {
  for (const auto* text : {"", "10.1.2", "10.1.2.3%1", "host", "10.1.2.3:80", "fe80::1%nosuchif"}) {
    EXPECT_FALSE(SocketAddress::parse(text)) << text;
  }
}

TEST(SocketAddress, EqualityLooksAtAddressPortAndScope) {
  EXPECT_EQ(address("10.1.2.3"), address("10.1.2.3"));
  EXPECT_NE(address("10.1.2.3"), address("10.1.2.4"));
  EXPECT_NE(address("10.1.2.3"), address("10.1.2.3").with_port(1));
  EXPECT_NE(address("fe80::1%1"), address("fe80::1%2"));
  EXPECT_NE(address("10.1.2.3"), address("::ffff:10.1.2.3"));
  EXPECT_TRUE(same_ip(address("10.1.2.3"), address("10.1.2.3").with_port(1)));
}

TEST(SocketAddress, KernelsFormIsReadBack) {
  for (const auto* text : {"10.1.2.3", "fe80::1%3"}) {
    const auto wanted = address(text);
    const auto read = SocketAddress::from(wanted.data(), wanted.size());
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, wanted);
    EXPECT_FALSE(SocketAddress::from(wanted.data(), wanted.size() - 1));
  }
}

TEST(Gid, IPv4IsMapped) {
  const Gid gid = gid_of(address("10.1.2.3"));
  EXPECT_TRUE(gid.is_ipv4_mapped());
  EXPECT_EQ(gid_text(gid), "::ffff:10.1.2.3");
  EXPECT_EQ(resolve_gid(gid, 7).value(), address("10.1.2.3"));
}

TEST(Gid, SyntheticLinkLocalLeadsBackToItsAddress) {
  const auto node = address("127.0.3.44");
  EXPECT_EQ(mac_text(synthetic_mac(node)), "02:00:7f:00:03:2c");
  const Gid gid = link_local_gid(synthetic_mac(node));
  EXPECT_EQ(gid_text(gid), "fe80::7fff:fe00:32c");
  EXPECT_EQ(resolve_gid(gid, 7).value(), node);
}

TEST(Gid, OtherLinkLocalGetsTheNodesScope) {
  const Gid gid = link_local_gid({0x52, 0x54, 0, 1, 2, 3});
  EXPECT_EQ(gid_text(gid), "fe80::5054:ff:fe01:203");
  EXPECT_EQ(resolve_gid(gid, 7).value(), address("fe80::5054:ff:fe01:203%7"));
}

TEST(Gid, MulticastResolvesToItsGroup) {
  EXPECT_EQ(resolve_gid(gid_of(address("239.1.2.3")), 7).value(), address("239.1.2.3"));
  EXPECT_EQ(resolve_gid(gid_of(address("ff02::5")), 7).value(), address("ff02::5%7"));
  EXPECT_EQ(resolve_gid(gid_of(address("ff0e::5")), 7).value(), address("ff0e::5"));
}

TEST(Gid, UnusableOnesAreRefused) {
  EXPECT_FALSE(resolve_gid(Gid{}, 7));
  EXPECT_FALSE(resolve_gid(gid_of(address("0.0.0.0")), 7));
}

TEST(Eui64, InvertsTheUniversalBit) {
  EXPECT_EQ(eui64({0x00, 0x1b, 0x21, 0xaa, 0xbb, 0xcc}), 0x021b21fffeaabbccu);
}

}  // namespace
}  // namespace verbatim

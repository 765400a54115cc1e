#include "connect/addresses.h"

#include <gtest/gtest.h>

namespace verbatim::connect {
namespace {

SocketAddress at(const char* text) { return SocketAddress::parse(text).value(); }

/// As on a real node: GID 0 is made from the MAC and stands for the IPv4 address; then each
/// address's own GID.
struct NodeAddresses {
  explicit NodeAddresses(OwnLoopback own_loopback = OwnLoopback::any) : addresses(own_loopback) {
    add("10.0.0.1", link_local_gid({2, 0, 10, 0, 0, 1}));
    add("10.0.0.1", gid_of(at("10.0.0.1")));
    add("fd00::1", gid_of(at("fd00::1")));
    add("fe80::1%3", gid_of(at("fe80::1%3")));
  }
  void add(const char* text, const Gid& gid) {
    const auto index = static_cast<std::uint8_t>(addresses.size());
    addresses.add({.address = at(text), .gid = gid, .gid_index = index});
  }
  Addresses addresses;
};

TEST(Addresses, AnAddressIsItsOwnGidAndNotTheOneOfTheMac) {
  const NodeAddresses node;
  EXPECT_EQ(node.addresses.own(at("10.0.0.1"))->gid_index, 1);
  EXPECT_EQ(node.addresses.own(at("10.0.0.1").with_port(99))->gid_index, 1);
  EXPECT_EQ(node.addresses.own(at("fd00::1"))->gid_index, 2);
}

TEST(Addresses, LinkLocalAddressNeedsNoScope) {
  const NodeAddresses node;
  EXPECT_EQ(node.addresses.own(at("fe80::1"))->gid_index, 3);
  EXPECT_EQ(node.addresses.own(at("fe80::1%3"))->gid_index, 3);
}

TEST(Addresses, AStrangersAddressIsRefused) {
  const NodeAddresses node;
  const auto refused = node.addresses.own(at("10.0.0.9"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRNOTAVAIL);
}

TEST(Addresses, LoopbackIsTheFirstOwnAddressWhereNoOtherNodeHasIt) {
  EXPECT_EQ(NodeAddresses().addresses.own(at("127.0.0.1"))->address, at("10.0.0.1"));
  EXPECT_EQ(NodeAddresses().addresses.own(at("::1"))->address, at("fd00::1"));
  EXPECT_FALSE(NodeAddresses(OwnLoopback::none).addresses.own(at("127.0.0.1")));
  const NodeAddresses host(OwnLoopback::localhost);
  EXPECT_EQ(host.addresses.own(at("127.0.0.1"))->address, at("10.0.0.1"));
  EXPECT_FALSE(host.addresses.own(at("127.0.0.2")));
  EXPECT_FALSE(host.addresses.own(at("::1")));
}

TEST(Addresses, AGidIsItsAddress) {
  const NodeAddresses node;
  EXPECT_EQ(node.addresses.own(gid_of(at("fd00::1")))->address, at("fd00::1"));
  EXPECT_EQ(node.addresses.own(gid_of(at("fd00::2"))).error().code, EADDRNOTAVAIL);
}

TEST(Addresses, SourceHasFamilyAndScopeOfTheDestination) {
  const NodeAddresses node;
  EXPECT_EQ(node.addresses.source_for(at("10.0.0.7"))->gid_index, 1);
  EXPECT_EQ(node.addresses.source_for(at("fd00::7"))->gid_index, 2);
  EXPECT_EQ(node.addresses.source_for(at("fe80::7%3"))->gid_index, 3);
}

TEST(Addresses, NoSourceWithoutTheFamily) {
  Addresses addresses(OwnLoopback::any);
  addresses.add({.address = at("10.0.0.1"), .gid = gid_of(at("10.0.0.1"))});
  const auto refused = addresses.source_for(at("fd00::7"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENODEV);
}

TEST(Addresses, AnEntryThatHasLostItsAddressIsNotUsed) {
  NodeAddresses node;
  node.addresses.set_valid(0b0011);
  EXPECT_FALSE(node.addresses.own(at("fd00::1")));
  EXPECT_FALSE(node.addresses.source_for(at("fd00::7")));
  EXPECT_EQ(node.addresses.all(AF_INET6, false), std::vector<SocketAddress>{});
  node.addresses.set_valid(0b1111);
  EXPECT_TRUE(node.addresses.own(at("fd00::1")));
}

TEST(Addresses, AllAreListedOnce) {
  const NodeAddresses node;
  EXPECT_EQ(node.addresses.all(AF_INET, false), std::vector{at("10.0.0.1")});
  EXPECT_EQ(node.addresses.all(AF_INET6, true),
            (std::vector{at("10.0.0.1"), at("fd00::1"), at("fe80::1%3")}));
}

/// InfiniBand: the node's address is at its first port; the GID of the second leads there, too.
TEST(Addresses, APortWithoutAnAddressIsFoundByItsGidAlone) {
  Addresses addresses(OwnLoopback::localhost);
  const Gid first{{0xfe, 0x80, 1}}, second{{0xfe, 0x80, 2}};
  addresses.add({.address = at("127.64.0.1"), .gid = first});
  addresses.add({.address = {}, .gid = second, .port = 2});
  EXPECT_EQ(addresses.own(second)->port, 2);
  EXPECT_EQ(addresses.own(second)->address, at("127.64.0.1"));
  EXPECT_EQ(addresses.own(at("127.64.0.1"))->gid, first);
  EXPECT_EQ(addresses.source_for(at("127.64.0.9"))->port, 1);
  EXPECT_EQ(addresses.all(AF_INET, true), std::vector{at("127.64.0.1")});
}

TEST(Addresses, WildcardsOfBothFamilies) {
  EXPECT_TRUE(is_wildcard(at("0.0.0.0")));
  EXPECT_TRUE(is_wildcard(at("::")));
  EXPECT_FALSE(is_wildcard(at("10.0.0.1")));
  EXPECT_FALSE(is_wildcard(at("::1")));
}

}  // namespace
}  // namespace verbatim::connect

#include "arena/node.h"

#include <cstring>

#include <gtest/gtest.h>

namespace verbatim::arena {
namespace {

SocketAddress address(std::uint8_t last) {
  return SocketAddress::ipv4({10, 0, 0, last}, kRocePort);
}

Node node() {
  Node node;
  node.name = "a";
  node.add(address(1));
  node.add(address(2));
  return node;
}

TEST(Node, KnowsWhichGidsAreValid) {
  Node two = node();
  EXPECT_EQ(two.index_of(address(2)), 1u);
  EXPECT_EQ(two.index_of(address(2).with_port(0)), 2u);
  two.network.addresses = 0b10;
  EXPECT_FALSE(two.is_valid(two.gids[0]));
  EXPECT_TRUE(two.is_valid(two.gids[1]));
}

TEST(Node, OneThatWasSentIsChecked) {
  Node good = node();
  good.name = "a\n";
  const auto taken = checked(good);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->name.view(), "a?");
  EXPECT_EQ(taken->addresses, good.addresses);
  EXPECT_EQ(taken->gids, good.gids);

  EXPECT_EQ(checked({}).error().code, EPROTO) << "there is no address";
  Node bad = node();
  bad.gids.push({gid_of(address(3)), address(3)});
  EXPECT_FALSE(checked(bad)) << "the GID's address is not the node's";
  bad = node();
  bad.addresses.push({});
  EXPECT_FALSE(checked(bad)) << "the address has no family";
  bad = node();
  const std::size_t many = kAddressesMax + 1;  // As another process may write it.
  auto* const addresses = reinterpret_cast<std::byte*>(&bad.addresses);
  std::memcpy(addresses + sizeof bad.addresses - sizeof many, &many, sizeof many);
  EXPECT_FALSE(checked(bad));
}

TEST(Node, GidOfAFabricsHostIsPrefixAndGuid) {
  const InfinibandPort port{.gid_prefix = 0xfe80'0000'0000'0000, .guid = 0x0102'0304'0506'0708};
  EXPECT_EQ(gid_text(gid_of(port)), "fe80::102:304:506:708");
}

TEST(Node, HostOfAFabricHasNoSockets) {
  Node node{.protocol = config::WireProtocol::infiniband};
  node.addresses.push(SocketAddress::ipv4({127, 72, 0, 1}));
  EXPECT_FALSE(checked(node)) << "it has no port";
  node.network.infiniband.push({.mtu = raw(Mtu::k2048)});
  node.network.infiniband.push({.mtu = raw(Mtu::k4096)});
  EXPECT_TRUE(checked(node));
  EXPECT_EQ(node.socket_count(), 0u);
  EXPECT_EQ(active_mtu(node), Mtu::k2048);
  node.protocol = config::WireProtocol::roce;
  EXPECT_FALSE(checked(node)) << "its ports are none of a fabric";
}

}  // namespace
}  // namespace verbatim::arena

#include "fabric/daemon/hosts/host_addresses.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

Topology topology_of(const std::vector<NodeKind>& kinds) {
  Topology topology;
  for (const NodeKind kind : kinds) topology.nodes.push_back({.kind = kind});
  return topology;
}

const Topology kThree = topology_of({NodeKind::adapter, NodeKind::switch_node, NodeKind::adapter});

TEST(HostAddresses, HostsAreNumberedInTheirOrder) {
  const HostAddresses addresses("default", kThree);
  const auto first = addresses.address_of(0).ipv4_bytes();
  EXPECT_EQ(first[0], 127);
  EXPECT_GE(first[1], 64);
  EXPECT_LT(first[1], 192);
  EXPECT_EQ(first[3], 1);
  EXPECT_EQ(addresses.address_of(2), SocketAddress::ipv4({127, first[1], 0, 2}));
}

TEST(HostAddresses, AddressLeadsBackToItsHost) {
  const HostAddresses addresses("default", kThree);
  EXPECT_EQ(addresses.node_with(addresses.address_of(2)), 2u);
  EXPECT_EQ(addresses.node_with(addresses.address_of(0).with_port(5000)), 0u);
}

TEST(HostAddresses, SwitchesHaveNone) {
  const HostAddresses addresses("default", kThree);
  EXPECT_TRUE(addresses.address_of(1).empty());
  EXPECT_TRUE(addresses.address_of(7).empty());
}

TEST(HostAddresses, OtherAddressesLeadNowhere) {
  const HostAddresses addresses("default", kThree);
  const auto known = addresses.address_of(0).ipv4_bytes();
  for (const std::uint8_t last : std::to_array<std::uint8_t>({0, 3, 255})) {
    EXPECT_FALSE(addresses.node_with(SocketAddress::ipv4({127, known[1], 0, last})));
  }
  EXPECT_FALSE(addresses.node_with(SocketAddress::ipv4({127, 0, 0, 1})));
  EXPECT_FALSE(addresses.node_with(SocketAddress()));
}

TEST(HostAddresses, FabricsDiffer) {
  EXPECT_NE(HostAddresses("a", kThree).address_of(0), HostAddresses("b", kThree).address_of(0));
}

TEST(HostAddresses, MoreThan255HostsHaveOneEach) {
  const HostAddresses addresses("default", topology_of(std::vector(300, NodeKind::adapter)));
  EXPECT_EQ(addresses.address_of(299).ipv4_bytes()[2], 1);
  EXPECT_EQ(addresses.address_of(299).ipv4_bytes()[3], 300 - 256);
  EXPECT_EQ(addresses.node_with(addresses.address_of(299)), 299u);
}

}  // namespace
}  // namespace verbatim::fabric

#include "agent/identity/identity.h"

#include <gtest/gtest.h>

#include "agent/client/client.h"

namespace verbatim::agent {
namespace {

SocketAddress address(std::string_view text) {
  return SocketAddress::parse(text, kRocePort).value();
}

const Interface kLoopback{.name = "lo",
                          .index = 1,
                          .mtu_bytes = 65'536,
                          .is_up = true,
                          .is_loopback = true,
                          .addresses = {address("127.0.0.1"), address("::1")}};
const Interface kEthernet{.name = "eth0",
                          .index = 4,
                          .mtu_bytes = 1500,
                          .mac = {0x52, 0x54, 0, 1, 2, 3},
                          .is_up = true,
                          .addresses = {address("10.0.0.5"), address("2001:db8::5"),
                                        address("fe80::5054:ff:fe01:203%4")}};

std::vector<Interface> both() { return {kLoopback, kEthernet}; }

Node node(const std::string& name, std::string_view wanted,
          const std::vector<Interface>& interfaces, bool may_be_interface = true) {
  auto result = identify(name, {.addresses = parse_addresses(wanted).value()}, interfaces,
                         [=](const Interface&) { return may_be_interface; });
  EXPECT_TRUE(result) << result.error().text;
  return result.value_or(Node());
}

std::vector<std::string> gids(const Node& node) {
  std::vector<std::string> texts;
  for (const auto& entry : node.gids) {
    texts.push_back(gid_text(entry.gid) + " by " + entry.address.ip_text());
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Identity, LocalNodeIsTheFirstInterfacesOwn) {
  const auto local = node("local", "", both());
  EXPECT_EQ(local.interface, "eth0");
  EXPECT_EQ(local.mac, kEthernet.mac);
  EXPECT_EQ(local.guid, 0x505400fffe010203u);
  EXPECT_EQ(local.network.interface_mtu_bytes, 1500u);
  EXPECT_EQ(gids(local), (Texts{"fe80::5054:ff:fe01:203 by fe80::5054:ff:fe01:203%4",
                                "::ffff:10.0.0.5 by 10.0.0.5"}));
}

TEST(Identity, AWantedInterfaceGivesItsFirstAddress) {
  const auto eth = identify("a", {.interface = "eth0"}, both(), [](auto&) { return true; });
  ASSERT_TRUE(eth) << eth.error().text;
  EXPECT_EQ(eth->interface, "eth0");
  EXPECT_EQ(eth->addresses.front().ip_text(), "10.0.0.5");
}

TEST(Identity, AWantedInterfaceHasToHaveTheAddress) {
  const config::NodeConfig wanted{.addresses = {address("127.0.0.1")}, .interface = "eth0"};
  const auto other = identify("a", wanted, both(), [](auto&) { return true; });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().text, "the address 127.0.0.1 belongs to interface lo, not eth0");
  const auto none = identify("a", {.interface = "eth7"}, both(), [](auto&) { return true; });
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENODEV);
}

TEST(Identity, TheDeviceIsAsWanted) {
  const config::NodeConfig wanted{.addresses = {address("127.0.0.1")},
                                  .device = "NAME_GUID",
                                  .node_guid = 0x1122'3344'5566'7788,
                                  .profile = config::find_profile("tiny"),
                                  .limits = {.max_mtu = 512}};
  const auto node = identify("a", wanted, both(), [](auto&) { return true; });
  ASSERT_TRUE(node) << node.error().text;
  EXPECT_EQ(node->guid, 0x1122'3344'5566'7788u);
  EXPECT_EQ(node->device, "rocex1122334455667788");
  EXPECT_EQ(node->profile, "tiny");
  EXPECT_EQ(active_mtu(*node), Mtu::k512);
}

TEST(Identity, AnInterfaceThatIsDownIsPassedOver) {
  auto interfaces = both();
  interfaces[1].is_up = false;
  const auto local = node("local", "", interfaces);
  EXPECT_EQ(local.interface, "lo");
  EXPECT_EQ(gids(local),
            (Texts{"fe80::7fff:fe00:1 by 127.0.0.1", "::ffff:127.0.0.1 by 127.0.0.1"}));
}

TEST(Identity, SecondNodeOfAnInterfaceHasAMadeUpMac) {
  const auto second = node("b", "10.0.0.5", both(), false);
  EXPECT_EQ(mac_text(second.mac), "02:00:0a:00:00:05");
  EXPECT_EQ(gids(second), (Texts{"fe80::aff:fe00:5 by 10.0.0.5", "::ffff:10.0.0.5 by 10.0.0.5"}));
}

TEST(Identity, FirstIPv4ComesBeforeOtherAddresses) {
  const auto several = node("a", "2001:db8::5,10.0.0.5", both());
  EXPECT_EQ(gids(several), (Texts{"fe80::5054:ff:fe01:203 by fe80::5054:ff:fe01:203%4",
                                  "::ffff:10.0.0.5 by 10.0.0.5", "2001:db8::5 by 2001:db8::5"}));
}

TEST(Identity, ALinkLocalAddressMayBeAskedForWithoutItsInterface) {
  const auto asked = node("a", "10.0.0.5,fe80::5054:ff:fe01:203", both());
  EXPECT_EQ(asked.addresses.size(), 2u);
  EXPECT_EQ(asked.addresses[1].scope_id(), 4u);
}

TEST(Identity, IPv6LoopbackAloneHasNoLinkLocalGid) {
  EXPECT_EQ(gids(node("a", "::1", both())), (Texts{"::1 by ::1"}));
}

TEST(Identity, AMacThatLooksMadeUpIsNotUsed) {
  auto interfaces = both();
  interfaces[1].mac = {0x02, 0, 9, 9, 9, 9};
  interfaces[1].addresses = {address("10.0.0.5"), address("fe80::9ff:fe09:909%4")};
  EXPECT_EQ(gids(node("local", "", interfaces))[0], "fe80::aff:fe00:5 by 10.0.0.5");
}

TEST(Identity, WrongAddressesAreRefused) {
  const auto code = [](std::string_view wanted) {
    const auto result = identify("a", {.addresses = parse_addresses(wanted).value()}, both(),
                                 [](const Interface&) { return true; });
    return result ? 0 : result.error().code;
  };
  EXPECT_EQ(code("10.0.0.6"), EADDRNOTAVAIL);
  EXPECT_EQ(code("0.0.0.0"), EINVAL);
  EXPECT_EQ(code("::"), EINVAL);
  EXPECT_EQ(code("239.1.1.1"), EINVAL);
  EXPECT_EQ(code("10.0.0.5,10.0.0.5"), EINVAL);
}

TEST(Identity, WhatIsNoListOfAddressesIsRefused) {
  EXPECT_TRUE(parse_addresses("").value().empty());
  for (const char* text : {",", "10.0.0.5,", "10.0.0.5,,::1", "10.0.0.5 ::1"}) {
    const auto addresses = parse_addresses(text);
    ASSERT_FALSE(addresses) << text;
    EXPECT_EQ(addresses.error().code, EINVAL);
  }
}

TEST(Identity, GidsOfTwoVersionsStandSideBySide) {
  const auto two = with_versions(node("local", "", both()), {RoceVersion::v1, RoceVersion::v2});
  ASSERT_TRUE(two);
  EXPECT_EQ(gids(*two), (Texts{"fe80::5054:ff:fe01:203 by fe80::5054:ff:fe01:203%4",
                               "fe80::5054:ff:fe01:203 by fe80::5054:ff:fe01:203%4",
                               "::ffff:10.0.0.5 by 10.0.0.5", "::ffff:10.0.0.5 by 10.0.0.5"}));
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(roce_version(two->gids[i].address), i % 2 == 0 ? RoceVersion::v1 : RoceVersion::v2);
  }
  EXPECT_EQ(versions_of(two->addresses), (RoceVersions{RoceVersion::v1, RoceVersion::v2}));
}

TEST(Identity, AGidThatStandsForAnotherAddressIsNoneOfVersion1) {
  // The first one, made from the IPv4 address.
  const auto made_up = node("a", "127.0.0.2", both());
  ASSERT_EQ(made_up.gids.size(), 2u);
  const auto framed = with_versions(made_up, {RoceVersion::v1});
  ASSERT_TRUE(framed);
  EXPECT_EQ(gids(*framed), (Texts{"::ffff:127.0.0.2 by 127.0.0.2"}));
  std::vector<Interface> many{kLoopback};
  const auto full = node(
      "a", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7,127.0.0.8", many);
  const auto refused = with_versions(full, {RoceVersion::v1, RoceVersion::v2});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
}

TEST(Identity, AddressFromNameIsStable) {
  EXPECT_EQ(address_from_name("a"), address_from_name("a"));
  EXPECT_NE(address_from_name("a"), address_from_name("b"));
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = address_from_name(std::to_string(i)).ipv4_bytes();
    EXPECT_EQ(bytes[0], 127);
    EXPECT_NE(bytes[1], 0);
    EXPECT_NE(bytes[3], 0);
    EXPECT_NE(bytes[3], 255);
  }
}

TEST(NetworkState, FollowsInterfaceAndAddresses) {
  const auto two = node("a", "10.0.0.5,2001:db8::5", both());
  auto interfaces = both();
  const NetworkState well{
      .addresses = 0b111, .hardware_address = kEthernet.mac, .interface_mtu_bytes = 1500};
  EXPECT_EQ(port_state(two, interfaces), well);

  std::erase(interfaces[1].addresses, address("10.0.0.5"));
  NetworkState expected = well;
  expected.addresses = 0b110;
  EXPECT_EQ(port_state(two, interfaces), expected);

  interfaces[1].addresses.clear();
  expected.addresses = 0;
  expected.is_active = false;
  EXPECT_EQ(port_state(two, interfaces), expected);

  interfaces = both();
  interfaces[1].is_up = false;
  expected = well;
  expected.is_active = false;
  EXPECT_EQ(port_state(two, interfaces), expected);

  interfaces = both();
  interfaces[1].mtu_bytes = 9000;
  expected = well;
  expected.interface_mtu_bytes = 9000;
  EXPECT_EQ(port_state(two, interfaces), expected);
}

TEST(NetworkState, AnInterfaceThatIsGoneStaysGone) {
  const auto own = node("a", "10.0.0.5", both());
  const NetworkState gone{
      .is_present = false, .is_active = false, .addresses = 0, .interface_mtu_bytes = 1500};
  EXPECT_EQ(port_state(own, {kLoopback}), gone);
  auto interfaces = both();
  interfaces[1].index = 7;  // A new interface of the same name.
  EXPECT_EQ(port_state(own, interfaces), gone);
}

TEST(Strangers, AreTheOtherAddressesOfTheNodesInterface) {
  const auto own = node("a", "10.0.0.5", both());  // And the interface's link-local address.
  EXPECT_EQ(unassigned_addresses(own, both()), std::vector{address("2001:db8::5")});
  EXPECT_TRUE(unassigned_addresses(own, {kLoopback}).empty());

  const auto on_loopback = node("b", "127.0.0.7", both());
  auto interfaces = both();
  interfaces[0].addresses.push_back(address("10.9.9.9"));
  EXPECT_EQ(unassigned_addresses(on_loopback, interfaces), std::vector{address("10.9.9.9")});
}

TEST(Strangers, AnAddressThatLooksMadeUpIsNone) {
  const auto own = node("a", "10.0.0.5", both());
  auto interfaces = both();
  interfaces[1].addresses = {address("10.0.0.5"), address("fe80::9ff:fe09:909%4")};
  EXPECT_TRUE(unassigned_addresses(own, interfaces).empty());
}

TEST(ActiveMtu, IsTheLargestThatFitsWithHeaders) {
  EXPECT_EQ(active_mtu(65'536), Mtu::k4096);
  EXPECT_EQ(active_mtu(4096 + 80), Mtu::k4096);
  EXPECT_EQ(active_mtu(4096 + 79), Mtu::k2048);
  EXPECT_EQ(active_mtu(1500), Mtu::k1024);
  EXPECT_EQ(active_mtu(500), Mtu::k256);
}

}  // namespace
}  // namespace verbatim::agent

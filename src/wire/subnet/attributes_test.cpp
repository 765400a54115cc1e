// The golden bytes were sent by Debian's ibsim 0.10 under Debian's opensm (three switches in a
// triangle, four hosts); the values are those that Debian's smpquery printed for them.
#include <array>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/fields_test_util.h"
#include "wire/subnet/node.h"
#include "wire/subnet/port_info.h"
#include "wire/subnet/sm_info.h"
#include "wire/subnet/tables.h"

namespace verbatim::wire {
namespace {

/// Returns the bytes of `text`, followed by zeros.
template <std::size_t kSize>
std::array<std::byte, kSize> bytes_of(std::string_view text) {
  std::array<std::byte, kSize> bytes{};
  std::ranges::copy(from_hex(text), bytes.begin());
  return bytes;
}

/// Checks that `text` decodes to `value`, and that `value` encodes to `text` followed by zeros.
template <Fields T>
void expect_golden(std::string_view text, const T& value) {
  const auto bytes = bytes_of<T::kSize>(text);
  EXPECT_EQ(decode<T>(std::span(bytes)), value);
  EXPECT_EQ(encoded_hex(value), to_hex(bytes));
}

template <typename T>
class SubnetAttributes : public testing::Test {};
using All = testing::Types<NodeDescription, NodeInfo, SwitchInfo, LedInfo, PortInfo,
                           MellanoxExtendedPortInfo, GuidInfo, PKeyTable, SlToVlMappingTable,
                           LinearForwardingTable, MulticastForwardingTable, SmInfo,
                           PortInfoModifier, PKeyTableModifier, SlToVlModifier,
                           VlArbitrationModifier, MulticastForwardingModifier>;
TYPED_TEST_SUITE(SubnetAttributes, All);
TYPED_TEST(SubnetAttributes, DecodeWhatTheyEncode) { expect_round_trip<TypeParam>(); }

TEST(NodeDescription, EndsAtAZeroOrWithTheField) {
  expect_golden("4831", node_description("H1"));
  EXPECT_EQ(text_of(node_description("H1")), "H1");
  const std::string long_name(70, 'x');
  const NodeDescription cut = node_description(long_name);
  EXPECT_EQ(text_of(cut), long_name.substr(0, 64));
}

TEST(NodeInfo, GoldenBytes) {
  expect_golden(
      "0101 0102 0000 0000 0010 0000 0000 0000 0010 0000 0000 0000 0010 0001 0040 0000"
      "0000 00a1 0100 0000",
      NodeInfo{.node_type = NodeType::channel_adapter,
               .ports = 2,
               .system_image_guid = 0x100000,
               .node_guid = 0x100000,
               .port_guid = 0x100001,
               .partition_cap = 64,
               .revision = 0xa1,
               .local_port = 1});
}

TEST(SwitchInfo, GoldenBytes) {
  expect_golden("7800 0000 0400 0007 0000 0090 0000 0040 3000",
                SwitchInfo{.linear_forwarding_cap = 30720,
                           .multicast_forwarding_cap = 1024,
                           .linear_forwarding_top = 7,
                           .lifetime = 18,
                           .partition_enforcement_cap = 64,
                           .filter_raw_inbound_cap = true,
                           .filter_raw_outbound_cap = true});
}

TEST(PortInfo, GoldenBytesOfAHost) {
  PortInfo port{.gid_prefix = 0xfe80000000000000,
                .lid = Lid{1},
                .sm_lid = Lid{1},
                .m_key_lease_period_s = 4089,
                .local_port = 1,
                .width_enabled = 2,
                .width_supported = 31,
                .width_active = LinkWidth::x4,
                .speed_supported = 7,
                .state = PortState::active,
                .physical_state = PhysicalState::link_up,
                .link_down_default_state = PhysicalState::polling,
                .speed_active = 1,
                .speed_enabled = 1,
                .neighbor_mtu = Mtu::k2048,
                .vl_cap = VirtualLanes::eight,
                .vl_arbitration_high_cap = 8,
                .vl_arbitration_low_cap = 8,
                .mtu_cap = Mtu::k2048,
                .vl_stall_count = 7,
                .operational_vls = VirtualLanes::eight,
                .guid_cap = 32,
                .subnet_timeout = 31,
                .capabilities2 = port_capability2::kWidth2x | port_capability2::kSpeedHdr};
  port.capabilities = port_capability::kTrap | port_capability::kSlMapping |
                      port_capability::kExtendedSpeeds | port_capability::kCapabilityMask2 |
                      port_capability::kVendorClass | port_capability::kCapabilityMaskNotice;
  expect_golden(
      "0000 0000 0000 0000 fe80 0000 0000 0000 0001 0001 0050 c048 0000 0ff9 0102 1f02"
      "7452 0011 4040 0008 0804 e040 0000 0000 0000 201f 0000 0000 0000 0000 0030 0000",
      port);
}

TEST(PortInfo, GoldenBytesOfASwitchPort) {
  expect_golden(
      "0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0002 1f02"
      "7452 0011 4040 0008 0804 f040",
      PortInfo{.width_enabled = 2,
               .width_supported = 31,
               .width_active = LinkWidth::x4,
               .speed_supported = 7,
               .state = PortState::active,
               .physical_state = PhysicalState::link_up,
               .link_down_default_state = PhysicalState::polling,
               .speed_active = 1,
               .speed_enabled = 1,
               .neighbor_mtu = Mtu::k2048,
               .vl_cap = VirtualLanes::eight,
               .vl_arbitration_high_cap = 8,
               .vl_arbitration_low_cap = 8,
               .mtu_cap = Mtu::k2048,
               .vl_stall_count = 7,
               .head_of_queue_life = 16,
               .operational_vls = VirtualLanes::eight});
}

TEST(PortInfo, LanesOfEachCode) {
  EXPECT_EQ(data_lanes_of(VirtualLanes::no_change), 0u);
  EXPECT_EQ(data_lanes_of(VirtualLanes::one), 1u);
  EXPECT_EQ(data_lanes_of(VirtualLanes::eight), 8u);
  EXPECT_EQ(data_lanes_of(VirtualLanes::fifteen), 15u);
  EXPECT_EQ(data_lanes_of(VirtualLanes{6}), 0u);
}

TEST(GuidInfo, GoldenBytes) { expect_golden("0000 0000 0010 0001", GuidInfo{.guids = {0x100001}}); }

TEST(PKeyTable, GoldenBytes) { expect_golden("ffff", PKeyTable{.keys = {PKey{0xffff}}}); }

TEST(SlToVlMappingTable, GoldenBytes) {
  expect_golden("0123 4567 0123 4567",
                SlToVlMappingTable{.lanes = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}});
}

TEST(VlArbitrationTable, GoldenBytes) {
  const auto bytes = bytes_of<VlArbitrationTable::kSize>("0000 0104 0204 0304 0404 0504 0604 0704");
  const VlArbitrationTable table{
      .entries = {{{0, 0}, {1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}, {6, 4}, {7, 4}}}};
  EXPECT_EQ(decode_vl_arbitration_table(bytes), table);
  EXPECT_EQ(encoded_hex(table), to_hex(bytes));
}

TEST(VlArbitrationTable, ReservedBitsAreIgnored) {
  EXPECT_EQ(decode_vl_arbitration_table(bytes_of<VlArbitrationTable::kSize>("f304")).entries[0],
            (VlArbitrationEntry{.lane = 3, .weight = 4}));
}

TEST(LinearForwardingTable, GoldenBytes) {
  LinearForwardingTable table;
  table.ports.fill(LinearForwardingTable::kNoPort);
  const std::array<std::uint8_t, 8> known{255, 1, 0, 3, 4, 2, 3, 4};
  std::ranges::copy(known, table.ports.begin());
  std::string text = "ff01 0003 0402 0304";
  for (int i = 8; i < 64; ++i) text += "ff";
  expect_golden(text, table);
}

TEST(MulticastForwardingTable, GoldenBytes) {
  expect_golden("8001 0002", MulticastForwardingTable{.port_masks = {0x8001, 2}});
}

TEST(SmInfo, GoldenBytes) {
  expect_golden(
      "0000 0000 0010 0001 0000 0000 0000 0001 0000 0063 53",
      SmInfo{
          .guid = 0x100001, .sm_key = 1, .activity = 99, .priority = 5, .state = SmState::master});
}

TEST(AttributeModifiers, AreAsOpensmAndSmpqueryWriteThem) {
  EXPECT_EQ(modifier_of(PortInfoModifier{.knows_extended_speeds = true, .port = 1}), 0x80000001);
  EXPECT_EQ(modifier_of(PKeyTableModifier{.port = 2, .block = 3}), 0x00020003u);
  EXPECT_EQ(modifier_of(SlToVlModifier{.input_port = 1, .output_port = 2}), 0x0102u);
  EXPECT_EQ(modifier_of(VlArbitrationModifier{.block = 3, .port = 1}), 0x00030001u);
  EXPECT_EQ(modifier_of(MulticastForwardingModifier{.position = 2, .block = 5}), 0x20000005u);
  EXPECT_EQ(modifier_as<PortInfoModifier>(0x80000024).port, 0x24);
}

}  // namespace
}  // namespace verbatim::wire

#include "adapter/ethernet/flow_table.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

using wire::Frame;
using wire::FrameFields;

constexpr Qpn kA(1);
constexpr Qpn kB(2);
constexpr Qpn kC(3);

Frame frame_to(std::uint8_t first_mac_byte, std::uint8_t protocol = 0) {
  Frame frame;
  frame.outer.layers = wire::kLayerEthernet;
  frame.outer.fields.destination_mac = {first_mac_byte, 2, 3, 4, 5, 6};
  if (protocol != 0) {
    frame.outer.layers |= wire::kLayerIpv4;
    frame.outer.fields.protocol = protocol;
  }
  return frame;
}

FlowRule rule_for(std::uint8_t first_mac_byte, Qpn target, std::uint16_t priority = 0) {
  FlowRule rule{.priority = priority, .target = target};
  rule.outer.layers = wire::kLayerEthernet;
  rule.outer.value.destination_mac = {first_mac_byte, 2, 3, 4, 5, 6};
  rule.outer.mask.destination_mac.fill(0xff);
  return rule;
}

FlowRule rule_for_protocol(std::uint8_t protocol, Qpn target, std::uint16_t priority = 0) {
  FlowRule rule{.priority = priority, .target = target};
  rule.outer.layers = wire::kLayerIpv4;
  rule.outer.value.protocol = protocol;
  rule.outer.mask.protocol = 0xff;
  return rule;
}

std::vector<std::uint32_t> targets(const FlowTable& table, const Frame& frame, bool sent = false) {
  std::vector<std::uint32_t> found;
  table.steer(frame, sent, [&](const FlowRule& rule) { found.push_back(rule.target.value()); });
  std::ranges::sort(found);
  return found;
}
using Targets = std::vector<std::uint32_t>;

TEST(FlowTable, RuleTakesWhatMatchesAndNothingElse) {
  FlowTable table;
  table.add(rule_for(2, kA));
  EXPECT_EQ(targets(table, frame_to(2)), Targets{1});
  EXPECT_EQ(targets(table, frame_to(4)), Targets{});
}

TEST(FlowTable, MaskedBitsOfTheFrameMayBeAnything) {
  FlowTable table;
  FlowRule rule = rule_for(2, kA);
  rule.outer.mask.destination_mac = {0xf0, 0, 0, 0, 0, 0};
  rule.outer.value.destination_mac[5] = 0xee;  // Ignored, because its mask is 0.
  table.add(rule);
  EXPECT_EQ(targets(table, frame_to(0x0e)), Targets{1});
  EXPECT_EQ(targets(table, frame_to(0x10)), Targets{});
}

TEST(FlowTable, LayersMustBeThere) {
  FlowTable table;
  FlowRule rule{.target = kA};
  rule.outer.layers = wire::kLayerIpv4;
  table.add(rule);
  EXPECT_EQ(targets(table, frame_to(2, 17)), Targets{1});
  EXPECT_EQ(targets(table, frame_to(2)), Targets{});
}

TEST(FlowTable, InnerHeadersAreOthersThanOuter) {
  FlowTable table;
  FlowRule rule{.target = kA};
  rule.inner = rule_for_protocol(6, kA).outer;
  table.add(rule);
  Frame frame = frame_to(2, 6);
  EXPECT_EQ(targets(table, frame), Targets{});
  frame.inner = frame.outer;
  EXPECT_EQ(targets(table, frame), Targets{1});
}

TEST(FlowTable, LowerNumberIsAskedFirstAndTraps) {
  FlowTable table;
  table.add(rule_for(2, kA, 5));
  table.add(rule_for_protocol(17, kB, 1));
  EXPECT_EQ(targets(table, frame_to(2, 17)), Targets{2});
  EXPECT_EQ(targets(table, frame_to(2, 6)), Targets{1});
}

TEST(FlowTable, RuleThatDoesNotTrapLetsLowerOnesSee) {
  FlowTable table;
  FlowRule copy = rule_for(2, kA, 1);
  copy.trap = false;
  table.add(copy);
  table.add(rule_for(2, kB, 2));
  table.add(rule_for(2, kC, 3));
  EXPECT_EQ(targets(table, frame_to(2)), (Targets{1, 2}));
}

TEST(FlowTable, EqualRulesOfOnePriorityAllGetTheFrame) {
  FlowTable table;
  table.add(rule_for(2, kA));
  table.add(rule_for(2, kB));
  table.add(rule_for_protocol(17, kC));
  EXPECT_EQ(targets(table, frame_to(2, 17)), (Targets{1, 2, 3}));
}

TEST(FlowTable, DefaultsTakeWhatIsLeft) {
  FlowTable table;
  table.add(rule_for(2, kA, 0xffff));
  table.add({.type = FlowType::all_default, .target = kB});
  table.add({.type = FlowType::multicast_default, .target = kC});
  EXPECT_EQ(targets(table, frame_to(2)), Targets{1});
  EXPECT_EQ(targets(table, frame_to(4)), Targets{2});
  EXPECT_EQ(targets(table, frame_to(5)), Targets{3});
}

TEST(FlowTable, SnifferGetsCopiesOfWhatComesAndGoes) {
  FlowTable table;
  table.add(rule_for(2, kA));
  table.add({.type = FlowType::sniffer, .target = kB});
  EXPECT_EQ(targets(table, frame_to(2)), (Targets{1, 2}));
  EXPECT_EQ(targets(table, frame_to(2), true), Targets{2});
}

TEST(FlowTable, RemovedRulesTakeNothing) {
  FlowTable table;
  const auto first = table.add(rule_for(2, kA));
  table.add(rule_for(2, kA, 1));
  table.add(rule_for(2, kB, 2));
  EXPECT_TRUE(table.remove(first));
  EXPECT_FALSE(table.remove(first));
  EXPECT_EQ(targets(table, frame_to(2)), Targets{1});
  table.remove_all(kA);
  EXPECT_EQ(targets(table, frame_to(2)), Targets{2});
  table.remove_all(kB);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(targets(table, frame_to(2)), Targets{});
}

/// Compares with a check of each rule, one by one.
TEST(FlowTable, AgreesWithAskingEveryRule) {
  std::mt19937 random(20240611);
  const auto below = [&](unsigned limit) { return static_cast<std::uint8_t>(random() % limit); };
  for (int round = 0; round < 200; ++round) {
    FlowTable table;
    std::vector<std::pair<FlowTable::RuleId, FlowRule>> rules;
    for (int i = 0; i < 12; ++i) {
      FlowRule rule = rule_for(below(3), Qpn(1 + below(4)), below(3));
      rule.outer.mask.destination_mac = {below(4), 0, 0, 0, 0, 0};
      rule.outer.mask.protocol = below(2) == 0 ? 0xff : 0;
      rule.outer.value.protocol = below(2) == 0 ? 6 : 17;
      if (rule.outer.mask.protocol != 0) rule.outer.layers |= wire::kLayerIpv4;
      rule.trap = below(2) == 0;
      rules.emplace_back(table.add(rule), rule);
    }
    for (int i = 0; i < 4; ++i) {
      const auto at = rules.begin() + below(static_cast<unsigned>(rules.size()));
      ASSERT_TRUE(table.remove(at->first));
      rules.erase(at);
    }
    for (int i = 0; i < 20; ++i) {
      const Frame frame = frame_to(below(3), below(2) == 0 ? 6 : 0);
      Targets expected;
      for (std::uint16_t priority = 0; priority < 3; ++priority) {
        bool trapped = false;
        for (const auto& [id, rule] : rules) {
          const auto differ = [&](std::uint8_t value, std::uint8_t mask, std::uint8_t found) {
            return ((value ^ found) & mask) != 0;
          };
          const auto& [layers, value, mask] = rule.outer;
          if (rule.priority != priority || !frame.outer.has(layers) ||
              differ(value.destination_mac[0], mask.destination_mac[0],
                     frame.outer.fields.destination_mac[0]) ||
              differ(value.protocol, mask.protocol, frame.outer.fields.protocol)) {
            continue;
          }
          expected.push_back(rule.target.value());
          trapped |= rule.trap;
        }
        if (trapped) break;
      }
      std::ranges::sort(expected);
      ASSERT_EQ(targets(table, frame), expected) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace verbatim::adapter

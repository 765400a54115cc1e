#include "offload/switch/flow_table.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "sim/random.h"

namespace verbatim::offload {
namespace {

/// A plain list of rules: what the table must agree with.
class PlainList {
 public:
  void insert(const Rule& rule) { rules_[rule.id] = rule; }
  void erase(std::uint32_t id) { rules_.erase(id); }
  bool matches(const Rule& rule, const Key& key) const {
    Key mask = rule.mask;
    mask.port = mask.group = 0xffff;
    Key wanted = masked(rule.key, mask);
    wanted.group = rule.group;
    return masked(key, mask) == wanted;
  }
  /// Whether `found` is a right answer: of the best priority of those that match.
  bool accepts(const Key& key, std::uint32_t found) const {
    std::uint32_t best = 0xffffffff;
    bool any = false;
    for (const auto& [id, rule] : rules_) {
      if (!matches(rule, key)) continue;
      any = true;
      best = std::min(best, rule.priority);
    }
    if (!any) return found == kNoRule;
    const auto at = rules_.find(found);
    return at != rules_.end() && matches(at->second, key) && at->second.priority == best;
  }

 private:
  std::map<std::uint32_t, Rule> rules_;
};

/// Few values of few fields, so that rules overlap and keys hit.
Key some_key(sim::Random& random) {
  Key key;
  key.port = static_cast<std::uint16_t>(random.below(3));
  key.group = static_cast<std::uint16_t>(random.below(2));
  key.protocol = random.chance(0.5) ? 6 : 17;
  key.vlan_tag = {static_cast<std::uint8_t>(random.chance(0.5) ? kTagPresent : 0), 0};
  key.destination_mac[5] = static_cast<std::uint8_t>(random.below(4));
  key.source_ip[3] = static_cast<std::uint8_t>(random.below(8));
  key.destination_ip[3] = static_cast<std::uint8_t>(random.below(8));
  key.destination_port[1] = static_cast<std::uint8_t>(random.below(8));
  return key;
}

Key some_mask(sim::Random& random) {
  Key mask;
  if (random.chance(0.3)) mask.protocol = 0xff;
  if (random.chance(0.3)) mask.vlan_tag[0] = kTagPresent;
  if (random.chance(0.3)) mask.destination_mac[5] = 0xff;
  if (random.chance(0.5)) mask.source_ip[3] = static_cast<std::uint8_t>(random.below(8));
  if (random.chance(0.5)) mask.destination_ip[3] = 0xff;
  if (random.chance(0.5)) mask.destination_port[1] = static_cast<std::uint8_t>(random.below(8));
  return mask;
}

Rule some_rule(sim::Random& random, std::uint32_t id, std::uint32_t priorities) {
  Rule rule{.key = some_key(random), .mask = some_mask(random), .id = id};
  rule.priority = static_cast<std::uint32_t>(random.below(priorities));
  rule.group = static_cast<std::uint16_t>(random.below(2));
  rule.actions.push({.kind = ActionKind::kOutput, .port = 1});
  return rule;
}

struct World {
  explicit World(std::uint64_t seed) : random(seed), table({.rules = 200, .masks = 512}, seed) {}
  void change() {
    const auto id = static_cast<std::uint32_t>(random.below(200));
    if (table.has(id)) {
      EXPECT_TRUE(table.erase(id));
      list.erase(id);
    } else {
      const Rule rule = some_rule(random, id, priorities);
      ASSERT_TRUE(table.insert(rule));
      list.insert(rule);
    }
  }
  void look() {
    std::array<Key, FlowTable::kBatch> keys;
    std::array<std::uint32_t, FlowTable::kBatch> found{};
    const std::size_t count = random.between(1, keys.size());
    for (std::size_t i = 0; i < count; ++i) keys[i] = some_key(random);
    table.find(std::span(keys).first(count), std::span(found).first(count));
    for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(list.accepts(keys[i], found[i]));
  }
  sim::Random random;
  FlowTable table;
  PlainList list;
  std::uint32_t priorities = 1;
};

TEST(FlowTable, AgreesWithAPlainListOfRules) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.priorities = seed % 3 == 0 ? 1 : 5;
    world.table.use_cache(seed % 4 != 0);
    for (int round = 0; round < 120; ++round) {
      world.change();
      world.look();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(FlowTable, BitsBesideTheMaskAreIgnored) {
  FlowTable table({}, 1);
  Rule rule{.id = 4};
  rule.key.source_ip = {10, 9, 0, 77};
  rule.mask.source_ip = {255, 255, 0, 0};
  rule.actions.push({.kind = ActionKind::kDrop});
  ASSERT_TRUE(table.insert(rule));
  Key key;
  key.source_ip = {10, 9, 3, 4};
  EXPECT_EQ(table.find(key), 4u);
  key.port = 1;
  EXPECT_EQ(table.find(key), kNoRule) << "the port is matched in full";
}

TEST(FlowTable, CacheForgetsAnErasedRule) {
  FlowTable table({}, 1);
  Rule rule{.id = 4};
  rule.actions.push({.kind = ActionKind::kDrop});
  ASSERT_TRUE(table.insert(rule));
  EXPECT_EQ(table.find(Key{}), 4u);
  ASSERT_TRUE(table.erase(4));
  EXPECT_EQ(table.find(Key{}), kNoRule);
  ASSERT_TRUE(table.insert(rule));
  EXPECT_EQ(table.find(Key{}), 4u);
}

TEST(FlowTable, RefusesBeyondItsLimits) {
  FlowTable table({.rules = 4, .masks = 2}, 1);
  Rule rule{.id = 4};
  rule.actions.push({.kind = ActionKind::kDrop});
  EXPECT_EQ(table.insert(rule).error().code, ENOSPC);
  for (rule.id = 0; rule.id < 2; ++rule.id) {
    rule.mask.protocol = static_cast<std::uint8_t>(rule.id + 1);
    ASSERT_TRUE(table.insert(rule));
    EXPECT_EQ(table.insert(rule).error().code, EEXIST);
  }
  rule.mask.protocol = 77;
  EXPECT_EQ(table.insert(rule).error().code, ENOSPC);
  EXPECT_FALSE(table.erase(3));
  ASSERT_TRUE(table.erase(0)) << "its mask goes with it";
  EXPECT_TRUE(table.insert(rule));
}

}  // namespace
}  // namespace verbatim::offload

#include "offload/switch/flow_table.h"

#include <cstddef>
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
  bool matches(const Rule& rule, const Key& key, const TunnelKey* tunnel) const {
    Key mask = rule.mask;
    mask.port = mask.group = 0xffff;
    Key wanted = masked(rule.key, mask);
    wanted.group = rule.group;
    return masked(key, mask) == wanted && matches_more(rule, key, tunnel);
  }
  static bool matches_more(const Rule& rule, const Key& key, const TunnelKey* tunnel) {
    if (rule.more == nullptr) return true;
    if (rule.more->has_tunnel()) {
      if (tunnel == nullptr) return false;
      const TunnelKey& wanted = rule.more->tunnel;
      const TunnelKey& mask = rule.more->tunnel_mask;
      for (std::size_t i = 0; i < 4; ++i) {
        if (((tunnel->id[i] ^ wanted.id[i]) & mask.id[i]) != 0) return false;
      }
      if (tunnel->kind != wanted.kind) return false;
      if (masked(tunnel->inner, mask.inner) != masked(wanted.inner, mask.inner)) return false;
    }
    for (const Range& range : rule.more->ranges) {  // Those of the test: one or two bytes.
      const Key& in = range.is_inner ? tunnel->inner : key;
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&in) + range.at;
      unsigned value = 0, low = 0, high = 0;
      for (std::size_t i = 0; i < range.size; ++i) {
        value = value << 8 | (bytes[i] & range.mask[i]);
        low = low << 8 | range.low[i];
        high = high << 8 | range.high[i];
      }
      if (value < low || value > high) return false;
    }
    return true;
  }
  /// Whether `found` is a right answer: of the best priority of those that match.
  bool accepts(const Key& key, const TunnelKey* tunnel, std::uint32_t found) const {
    std::uint32_t best = 0xffffffff;
    bool any = false;
    for (const auto& [id, rule] : rules_) {
      if (!matches(rule, key, tunnel)) continue;
      any = true;
      best = std::min(best, rule.priority);
    }
    if (!any) return found == kNoRule;
    const auto at = rules_.find(found);
    return at != rules_.end() && matches(at->second, key, tunnel) && at->second.priority == best;
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

TunnelKey some_tunnel(sim::Random& random) {
  TunnelKey tunnel{.kind = random.chance(0.5) ? wire::TunnelKind::kVxlan : wire::TunnelKind::kGre};
  tunnel.id[3] = static_cast<std::uint8_t>(random.below(4));
  tunnel.inner = some_key(random);
  tunnel.inner.port = tunnel.inner.group = 0;
  return tunnel;
}

Range some_range(sim::Random& random, bool is_inner) {
  const bool is_port = random.chance(0.7);
  Range range{.is_inner = is_inner && random.chance(0.5),
              .at = is_port ? std::uint8_t{offsetof(Key, destination_port)}
                            : std::uint8_t{offsetof(Key, source_ip) + 3},
              .size = is_port ? std::uint8_t{2} : std::uint8_t{1},
              .mask = {0xff, 0xff}};
  const std::size_t last = range.size - 1u;
  range.low[last] = static_cast<std::uint8_t>(random.below(8));
  range.high[last] = static_cast<std::uint8_t>(range.low[last] + random.below(4));
  return range;
}

/// Tunnels, ranges, both or none.
std::shared_ptr<const MoreMatch> some_more(sim::Random& random) {
  MoreMatch more;
  const bool has_tunnel = random.chance(0.4);
  if (has_tunnel) {
    more.tunnel = some_tunnel(random);
    more.tunnel_mask.kind = wire::TunnelKind{0xff};
    if (random.chance(0.5)) more.tunnel_mask.id.fill(0xff);
    more.tunnel_mask.inner = some_mask(random);
  }
  for (std::uint64_t i = random.below(3); i > 0; --i)
    more.ranges.push(some_range(random, has_tunnel));
  if (!has_tunnel && more.ranges.empty()) return nullptr;
  return std::make_shared<const MoreMatch>(more);
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
      Rule rule = some_rule(random, id, priorities);
      if (asks_for_more) rule.more = some_more(random);
      ASSERT_TRUE(table.insert(rule));
      list.insert(rule);
    }
  }
  void look() {
    std::array<Key, FlowTable::kBatch> keys;
    std::array<std::uint32_t, FlowTable::kBatch> found{};
    const std::size_t count = random.between(1, keys.size());
    std::array<InTunnel, FlowTable::kBatch> in;
    std::array<const InTunnel*, FlowTable::kBatch> tunnels{};
    for (std::size_t i = 0; i < count; ++i) {
      keys[i] = some_key(random);
      if (!asks_for_more || random.chance(0.5)) continue;
      in[i].key = some_tunnel(random);
      tunnels[i] = &in[i];
    }
    table.find(std::span(keys).first(count), std::span(tunnels).first(count),
               std::span(found).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(list.accepts(keys[i], tunnels[i] != nullptr ? &in[i].key : nullptr, found[i]));
    }
  }
  sim::Random random;
  FlowTable table;
  PlainList list;
  std::uint32_t priorities = 1;
  bool asks_for_more = false;
};

void compare(std::uint64_t seeds, bool asks_for_more) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.asks_for_more = asks_for_more;
    world.priorities = seed % 3 == 0 ? 1 : 5;
    world.table.use_cache(seed % 4 != 0);
    for (int round = 0; round < 120; ++round) {
      world.change();
      world.look();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(FlowTable, AgreesWithAPlainListOfRules) { compare(24, false); }

TEST(FlowTable, TunnelsAndRangesAgreeWithAPlainListOfRules) { compare(48, true); }

TEST(FlowTable, RulesThatDifferInTheirRangesAlone) {
  FlowTable table({}, 1);
  for (std::uint8_t i = 0; i < 10; ++i) {
    Rule rule{.id = i};
    MoreMatch more;
    more.ranges.push({.at = offsetof(Key, destination_port),
                      .size = 2,
                      .mask = {0xff, 0xff},
                      .low = {i, 0},
                      .high = {i, 0x7f}});
    rule.more = std::make_shared<const MoreMatch>(more);
    rule.actions.push({.kind = ActionKind::kDrop});
    ASSERT_TRUE(table.insert(rule));
  }
  Key key;
  for (std::uint8_t i = 0; i < 10; ++i) {
    key.destination_port = {i, 0x7f};
    EXPECT_EQ(table.find(key), i);
    key.destination_port = {i, 0x80};
    EXPECT_EQ(table.find(key), kNoRule);
  }
  ASSERT_TRUE(table.erase(3));
  key.destination_port = {3, 1};
  EXPECT_EQ(table.find(key), kNoRule);
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

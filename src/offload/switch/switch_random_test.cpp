// Random rules and frames: what the switch says of a frame must follow from a plain list of the
// rules.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "offload/switch/packets_for_test.h"
#include "offload/switch/switch.h"
#include "sim/random.h"

namespace verbatim::offload {
namespace {

/// Whole fields, or some of their bits.
Key some_mask(sim::Random& random) {
  Key mask;
  const auto whole = [&](auto& field, double chance) {
    if (random.chance(chance)) std::memset(&field, 0xff, sizeof field);
  };
  whole(mask.destination_mac, 0.2);
  whole(mask.source_mac, 0.1);
  whole(mask.ether_type, 0.3);
  whole(mask.protocol, 0.3);
  whole(mask.hop_limit, 0.1);
  whole(mask.tcp_flags, 0.1);
  whole(mask.source_port, 0.2);
  whole(mask.destination_port, 0.2);
  if (random.chance(0.2)) mask.vlan_tag = {kTagPresent, 0x0f};
  if (random.chance(0.2)) mask.fragment = 3;
  if (random.chance(0.2)) mask.source_ip[3] = static_cast<std::uint8_t>(random.below(4));
  if (random.chance(0.2)) mask.destination_ip.fill(0xff);
  return mask;
}

Range some_range(sim::Random& random, bool is_inner) {
  Range range{.is_inner = is_inner,
              .at = random.chance(0.5) ? std::uint8_t{offsetof(Key, destination_port)}
                                       : std::uint8_t{offsetof(Key, source_port)},
              .size = 2,
              .mask = {0xff, 0xff}};
  range.low[1] = static_cast<std::uint8_t>(random.below(5));
  range.high[1] = static_cast<std::uint8_t>(range.low[1] + random.below(3));
  return range;
}

TunnelOption some_option(sim::Random& random) {
  TunnelOption option{.size = 4, .mask = {0xff, 0xff, 0xff}, .value = {1, 2}};
  option.value[2] = static_cast<std::uint8_t>(random.below(2));
  if (random.chance(0.5)) return option;
  option.size = 8;
  if (random.chance(0.5)) option.mask[3] = 0x1f;
  option.value[3] = 1;
  option.mask[6] = 0xff;
  option.value[6] = 7;
  option.mask[7] = static_cast<std::uint8_t>(random.below(4));
  option.value[7] = static_cast<std::uint8_t>(random.below(3)) & option.mask[7];
  return option;
}

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), engine_({.rules = 64, .masks = 64}, seed) {
    priorities_ = seed % 3 == 0 ? 1 : 4;
  }
  void change();
  void look();

 private:
  Rule some_rule(std::uint32_t id);
  std::shared_ptr<const MoreMatch> some_more(const Packet& like);
  Actions some_actions(Domain domain);
  bool matches(const Rule& rule, const Packet& packet, bool is_plain) const;
  std::vector<const Rule*> best(std::uint16_t group, Domain domain, const Packet& packet,
                                std::uint16_t port, bool is_plain) const;
  void expect_right(const Packet& packet, const Arrival& arrival, const Verdict& verdict,
                    const std::vector<std::uint32_t>& counted) const;

  sim::Random random_;
  Switch engine_;
  std::map<std::uint32_t, Rule> rules_;
  std::uint32_t priorities_;
};

std::shared_ptr<const MoreMatch> World::some_more(const Packet& like) {
  MoreMatch more;
  if (like.tunnel != TunnelKind::kNone && random_.chance(0.8)) {
    more.tunnel = tunnel_fields_of(like);
    more.tunnel_mask.kind = TunnelKind{0xff};
    if (random_.chance(0.4)) more.tunnel_mask.id.fill(0xff);
    if (random_.chance(0.2)) more.tunnel_mask.protocol.fill(0xff);
    if (random_.chance(0.7)) more.tunnel_mask.inner = some_mask(random_);
  }
  for (std::uint64_t i = random_.below(3); i > 0 && random_.chance(0.5); --i) {
    more.ranges.push(some_range(random_, more.has_tunnel() && random_.chance(0.5)));
  }
  if (more.has_tunnel() && like.tunnel == TunnelKind::kGeneve) {
    for (std::uint64_t i = random_.below(3); i > 0; --i) more.options.push(some_option(random_));
  }
  if (!more.has_tunnel() && more.ranges.empty()) return nullptr;
  return std::make_shared<const MoreMatch>(more);
}

Actions World::some_actions(Domain domain) {
  const auto value = [&](ActionKind kind, std::uint64_t below) {
    return Action{.kind = kind, .value = static_cast<std::uint32_t>(random_.below(below))};
  };
  const Action output{.kind = ActionKind::kOutput,
                      .port = static_cast<std::uint16_t>(random_.below(3))};
  if (random_.chance(0.3)) return {value(ActionKind::kJump, 4)};
  if (domain == Domain::kIngress || random_.chance(0.1)) return {value(ActionKind::kMark, 9)};
  if (random_.chance(0.2)) return {{.kind = ActionKind::kDrop}};
  if (random_.chance(0.3)) return {value(ActionKind::kMeter, 4), output};
  if (random_.chance(0.3)) return {output, value(ActionKind::kSetHopLimit, 9), output};
  return {output};
}

Rule World::some_rule(std::uint32_t id) {
  const Packet like = some_packet(random_);
  Rule rule{.key = fields_of(like.shape), .mask = some_mask(random_), .id = id};
  rule.key.port = static_cast<std::uint16_t>(random_.below(2));
  rule.priority = static_cast<std::uint32_t>(random_.below(priorities_));
  rule.group = static_cast<std::uint16_t>(random_.chance(0.5) ? 0 : random_.below(4));
  rule.domain = random_.chance(0.2) ? Domain::kIngress : Domain::kTransfer;
  rule.actions = some_actions(rule.domain);
  rule.more = some_more(like);
  return rule;
}

void World::change() {
  const auto id = static_cast<std::uint32_t>(random_.below(64));
  if (rules_.erase(id) != 0) {
    ASSERT_TRUE(engine_.erase(id));
    return;
  }
  const Rule rule = some_rule(id);
  if (engine_.insert(rule)) rules_[id] = rule;  // There may be too many masks.
}

bool in_mask(ByteSpan value, ByteSpan wanted, ByteSpan mask) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (((value[i] ^ wanted[i]) & mask[i]) != std::byte{}) return false;
  }
  return true;
}
template <typename T>
ByteSpan view_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Whether any of the packet's options is as it is wanted.
bool has_option(const Packet& packet, const TunnelOption& wanted) {
  const ByteSpan all = packet.options;
  for (std::size_t at = 0, size = 0; at < all.size(); at += size) {
    size = 4 + 4 * std::to_integer<std::size_t>(all[at + 3]);
    if (size < wanted.size) continue;
    const ByteSpan value = std::as_bytes(std::span(wanted.value)).first(wanted.size);
    if (in_mask(all.subspan(at, wanted.size), value, std::as_bytes(std::span(wanted.mask)))) {
      return true;
    }
  }
  return false;
}

bool World::matches(const Rule& rule, const Packet& packet, bool is_plain) const {
  const Key key = fields_of(packet.shape);
  if (!in_mask(view_of(key), view_of(rule.key), view_of(rule.mask))) return false;
  if (rule.more == nullptr) return true;
  const TunnelKey inside = tunnel_fields_of(packet);
  if (rule.more->has_tunnel()) {
    if (packet.tunnel == TunnelKind::kNone || !packet.is_whole || !is_plain) return false;
    if (!in_mask(view_of(inside), view_of(rule.more->tunnel), view_of(rule.more->tunnel_mask)))
      return false;
  }
  for (const TunnelOption& option : rule.more->options) {
    if (!has_option(packet, option)) return false;
  }
  for (const Range& range : rule.more->ranges) {
    const ByteSpan field = view_of(range.is_inner ? inside.inner : key).subspan(range.at, 2);
    const auto port = load_be<std::uint16_t>(field.data());
    if (port < range.low[1] || port > range.high[1]) return false;
  }
  return true;
}

std::vector<const Rule*> World::best(std::uint16_t group, Domain domain, const Packet& packet,
                                     std::uint16_t port, bool is_plain) const {
  std::vector<const Rule*> all;
  for (const auto& [id, rule] : rules_) {
    if (rule.group != group || rule.domain != domain || rule.key.port != port) continue;
    if (!matches(rule, packet, is_plain)) continue;
    if (!all.empty() && rule.priority < all.front()->priority) all.clear();
    if (all.empty() || rule.priority == all.front()->priority) all.push_back(&rule);
  }
  return all;
}

/// Among equals any rule may win: the way is the one that was counted.
void World::expect_right(const Packet& packet, const Arrival& arrival, const Verdict& verdict,
                         const std::vector<std::uint32_t>& counted) const {
  Domain domain = Domain::kTransfer;
  std::uint16_t group = 0;
  std::size_t at = 0;
  std::uint32_t mark = 0;
  std::uint32_t wanted = kNoRule;
  for (int jumps = 0; jumps <= Switch::kJumpsMax; ++jumps) {
    const auto rules = best(group, domain, packet, arrival.port, arrival.is_plain);
    if (rules.empty()) {
      if (domain == Domain::kIngress) break;
      domain = Domain::kIngress;
      group = 0;
      continue;
    }
    ASSERT_LT(at, counted.size()) << "a rule is not counted";
    const auto found = std::ranges::find(rules, counted[at++], [](auto* rule) { return rule->id; });
    ASSERT_NE(found, rules.end()) << "rule " << counted[at - 1] << " is not a best one";
    const Action& last = (*found)->actions.back();
    if (last.kind == ActionKind::kMark) mark = last.value;
    if (last.kind != ActionKind::kJump) {
      if (last.kind != ActionKind::kMark) wanted = (*found)->id;
      break;
    }
    group = static_cast<std::uint16_t>(last.value);
  }
  EXPECT_EQ(at, counted.size());
  EXPECT_EQ(verdict.rule, wanted);
  EXPECT_EQ(verdict.mark, mark);
  if (wanted == kNoRule) return;
  const Actions& actions = rules_.at(wanted).actions;
  EXPECT_TRUE(std::ranges::equal(verdict.actions, actions));
}

void World::look() {
  const std::size_t count = random_.between(1, Switch::kBatch);
  std::vector<Packet> packets(count);
  std::vector<std::vector<std::byte>> frames(count);
  std::vector<Arrival> arrivals(count);
  std::vector<Verdict> verdicts(count);
  std::vector<std::vector<std::uint32_t>> counted(count);
  for (std::size_t i = 0; i < count; ++i) {
    packets[i] = some_packet(random_);
    frames[i] = bytes_of(packets[i]);
    arrivals[i] = {.frame = frames[i],
                   .port = static_cast<std::uint16_t>(random_.below(2)),
                   .is_plain = random_.chance(0.9)};
    // What is cut short is software's.
    if (random_.chance(0.05)) arrivals[i].frame = ByteSpan(frames[i]).first(frames[i].size() - 1);
  }
  engine_.decide(arrivals, verdicts, [&](std::uint32_t id, const Arrival& arrival) {
    counted[static_cast<std::size_t>(&arrival - arrivals.data())].push_back(id);
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (arrivals[i].frame.size() != frames[i].size()) {
      EXPECT_TRUE(counted[i].empty() && verdicts[i].rule == kNoRule);
      continue;
    }
    expect_right(packets[i], arrivals[i], verdicts[i], counted[i]);
    if (testing::Test::HasFailure()) return;
  }
}

/// VERBATIM_SEEDS: how many.
TEST(SwitchRandom, AgreesWithAPlainListOfRules) {
  const char* const wanted = std::getenv("VERBATIM_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 40;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int round = 0; round < 150; ++round) {
      world.change();
      world.look();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace verbatim::offload

#include "offload/switch/switch.h"

#include <cerrno>
#include <map>

#include <gtest/gtest.h>

#include "offload/switch/frames/frames_test_util.h"

namespace verbatim::offload {
namespace {

struct Bench {
  Switch engine{{}, 3};
  std::map<std::uint32_t, std::uint64_t> packets;

  Result<void> rule(std::uint32_t id, std::uint16_t group, Actions actions,
                    Domain domain = Domain::kTransfer) {
    Rule rule{.id = id, .group = group, .domain = domain, .actions = actions};
    return engine.insert(rule);
  }
  Verdict frame(const std::vector<std::byte>& bytes, std::uint32_t count = 1) {
    const Arrival arrival{.frame = bytes, .packets = count, .bytes = bytes.size()};
    Verdict verdict;
    engine.decide({&arrival, 1}, {&verdict, 1}, [&](std::uint32_t id, const Arrival& counted) {
      packets[id] += counted.packets;
    });
    return verdict;
  }
};

Action output(std::uint16_t port) { return {.kind = ActionKind::kOutput, .port = port}; }
Action jump(std::uint32_t group) { return {.kind = ActionKind::kJump, .value = group}; }

TEST(Switch, OutputsInTheirOrder) {
  Bench bench;
  ASSERT_TRUE(bench.rule(1, 0, {output(2), output(0)}));
  const auto verdict = bench.frame(make_frame({}), 3);
  EXPECT_EQ(verdict.rule, 1u);
  ASSERT_EQ(verdict.actions.size(), 2u);
  EXPECT_EQ(verdict.actions[0], output(2));
  EXPECT_EQ(verdict.actions[1], output(0));
  EXPECT_EQ(bench.packets[1], 3u);
}

TEST(Switch, RulesAddToTheirOwnCounterAndToASharedOne) {
  Bench bench;
  ASSERT_TRUE(bench.engine.insert({.id = 1, .actions = {jump(7)}, .shared_counter = 9}));
  ASSERT_TRUE(bench.engine.insert({.id = 2, .group = 7, .actions = {output(0)}}));
  ASSERT_TRUE(bench.frame(make_frame({}), 3).rule == 2u);
  EXPECT_EQ(bench.packets, (std::map<std::uint32_t, std::uint64_t>{{1, 3}, {2, 3}, {9, 3}}));
}

TEST(Switch, ASharedCounterIsOneOfItsIds) {
  Switch engine({.rules = 8}, 3);
  const auto with = [](std::uint32_t counter) {
    return Rule{.id = 1, .actions = {output(0)}, .shared_counter = counter};
  };
  EXPECT_EQ(engine.insert(with(8)).error().code, EINVAL);
  EXPECT_TRUE(engine.insert(with(7)));
}

TEST(Switch, MissIsMarkedByTheIngressDomain) {
  Bench bench;
  EXPECT_EQ(bench.frame(make_frame({})).mark, 0u);
  ASSERT_TRUE(bench.rule(1, 0, {{.kind = ActionKind::kMark, .value = 77}}, Domain::kIngress));
  const auto verdict = bench.frame(make_frame({}));
  EXPECT_EQ(verdict.rule, kNoRule);
  EXPECT_EQ(verdict.mark, 77u);
  EXPECT_EQ(bench.packets[1], 1u);
}

TEST(Switch, RuleGivesAFrameToSoftware) {
  Bench bench;
  ASSERT_TRUE(bench.rule(1, 0, {jump(7)}));
  ASSERT_TRUE(bench.rule(2, 7, {{.kind = ActionKind::kMark, .value = 5}}));
  const auto verdict = bench.frame(make_frame({}));
  EXPECT_EQ(verdict.rule, kNoRule);
  EXPECT_EQ(verdict.mark, 5u);
  EXPECT_EQ(bench.packets[2], 1u);
}

TEST(Switch, JumpsCountEachRuleOnTheWay) {
  Bench bench;
  ASSERT_TRUE(bench.rule(1, 0, {jump(7)}));
  EXPECT_EQ(bench.frame(make_frame({})).rule, kNoRule) << "the group has no rule";
  ASSERT_TRUE(bench.rule(2, 7, {output(1)}));
  EXPECT_EQ(bench.frame(make_frame({})).rule, 2u);
  EXPECT_EQ(bench.packets[1], 2u);
  EXPECT_EQ(bench.packets[2], 1u);
}

TEST(Switch, CircleOfJumpsIsAMiss) {
  Bench bench;
  ASSERT_TRUE(bench.rule(1, 0, {jump(1)}));
  ASSERT_TRUE(bench.rule(2, 1, {jump(0)}));
  EXPECT_EQ(bench.frame(make_frame({})).rule, kNoRule);
}

TEST(Switch, MalformedFrameIsAMiss) {
  Bench bench;
  ASSERT_TRUE(bench.rule(1, 0, {output(2)}));
  auto frame = make_frame({});
  frame.resize(30);
  EXPECT_EQ(bench.frame(frame).rule, kNoRule);
  EXPECT_TRUE(bench.packets.empty());
}

TEST(Switch, RefusesActionsThatMakeNoSense) {
  Bench bench;
  const Action drop{.kind = ActionKind::kDrop};
  const Action edit{.kind = ActionKind::kPopVlan};
  for (const Actions& actions :
       {Actions{}, Actions{drop, output(1)}, Actions{output(1), drop}, Actions{output(1), jump(1)},
        Actions{edit, drop}, Actions{output(1), {.kind = ActionKind::kMark}},
        Actions{jump(Switch::kGroupsMax)}}) {
    EXPECT_EQ(bench.rule(1, 0, actions).error().code, EINVAL);
  }
  EXPECT_EQ(bench.rule(1, 0, {output(1)}, Domain::kIngress).error().code, EINVAL);
  EXPECT_EQ(bench.rule(1, Switch::kGroupsMax, {drop}).error().code, EINVAL);
}

TEST(Switch, RefusesHalfATunnel) {
  Bench bench;
  const Action header{.kind = ActionKind::kHeader};
  const auto encapsulate = [](std::uint32_t bytes) {
    return Action{.kind = ActionKind::kEncapsulate, .value = bytes};
  };
  EXPECT_FALSE(bench.rule(1, 0, {header, output(1)}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(20), header, output(1)}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(20), header, output(1), header}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(20), header, header, header, output(1)}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(13), header, output(1)}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(129), header, output(1)}));
  EXPECT_FALSE(bench.rule(1, 0, {encapsulate(0xffffffff), header, output(1)}));
  EXPECT_TRUE(bench.rule(1, 0, {encapsulate(20), header, header, output(1)}));
}

}  // namespace
}  // namespace verbatim::offload

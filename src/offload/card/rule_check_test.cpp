#include "offload/card/rule_check.h"

#include <gtest/gtest.h>

namespace verbatim::offload {
namespace {

vnic_rule output_rule() {
  vnic_rule rule{};
  rule.id = 7;
  rule.port = 1;
  rule.action_count = 1;
  rule.actions[0] = {.kind = VNIC_ACTION_OUTPUT, .port = 2, .value = 0, .bytes = {}};
  rule.key.source_ip[0] = 10;
  rule.mask.source_ip[0] = 255;
  return rule;
}

TEST(RuleCheck, TakesWhatADriverWrites) {
  const auto rule = rule_of(output_rule(), 3);
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->id, 7u);
  EXPECT_EQ(rule->key.port, 1);
  EXPECT_EQ(rule->key.source_ip[0], 10);
  EXPECT_EQ(rule->mask.source_ip[0], 255);
  ASSERT_EQ(rule->actions.size(), 1u);
  EXPECT_EQ(rule->actions[0], (Action{ActionKind::kOutput, 2, 0, {}}));
}

TEST(RuleCheck, ASharedCounterIsOneMoreThanItsId) {
  vnic_rule rule = output_rule();
  EXPECT_EQ(rule_of(rule, 3)->shared_counter, kNoRule);
  rule.shared_counter = 5;
  EXPECT_EQ(rule_of(rule, 3)->shared_counter, 4u);
}

TEST(RuleCheck, RefusesWhatTheCardDoesNotHave) {
  const auto refused = [](auto change) {
    vnic_rule rule = output_rule();
    change(rule);
    const auto checked = rule_of(rule, 3);
    return checked ? 0 : checked.error().code;
  };
  EXPECT_EQ(refused([](vnic_rule&) {}), 0);
  EXPECT_EQ(refused([](vnic_rule& rule) { rule.port = 3; }), EINVAL);
  EXPECT_EQ(refused([](vnic_rule& rule) { rule.actions[0].port = 3; }), EINVAL);
  EXPECT_EQ(refused([](vnic_rule& rule) { rule.domain = 2; }), EINVAL);
  EXPECT_EQ(refused([](vnic_rule& rule) { rule.action_count = 1000; }), EINVAL);
  EXPECT_EQ(refused([](vnic_rule& rule) { rule.actions[0].kind = 99; }), EOPNOTSUPP);
}

TEST(RuleCheck, ReservedBytesAreNoPort) {
  vnic_rule rule = output_rule();
  for (auto& byte : rule.key.reserved) byte = 0xff;
  for (auto& byte : rule.mask.reserved) byte = 0xff;
  const auto checked = rule_of(rule, 3);
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->key.port, 1);
  EXPECT_EQ(checked->key.group, 0);
}

}  // namespace
}  // namespace verbatim::offload

#include "offload/driver/book/ageing.h"

#include <array>
#include <map>

#include <gtest/gtest.h>

#include "sim/random.h"

namespace verbatim::offload::driver {
namespace {

struct World {
  Ageing ageing;
  std::map<std::uint32_t, std::uint64_t> packets;
  std::array<int, 8> contexts{};
  TimeNs now = 0;

  Age* add(std::uint32_t rule, unsigned seconds) {
    Age* const age = ageing.add(&contexts[rule], seconds * kSecond);
    age->join(rule, packets[rule], now);
    return age;
  }
  bool look(TimeNs later) {
    now += later;
    return ageing.look(now, [&](std::uint32_t rule) { return packets[rule]; });
  }
  std::size_t aged() { return ageing.aged(nullptr, 0); }
};

TEST(Ageing, ARuleWithoutTrafficAgesAndTellsOnce) {
  World world;
  world.add(1, 3);
  EXPECT_FALSE(world.look(2 * kSecond));
  EXPECT_EQ(world.aged(), 0u);
  EXPECT_TRUE(world.look(kSecond));
  EXPECT_FALSE(world.look(kSecond));
  void* context = nullptr;
  EXPECT_EQ(world.ageing.aged(&context, 1), 1u);
  EXPECT_EQ(context, &world.contexts[1]);
  EXPECT_FALSE(world.look(kSecond)) << "nothing new has aged";
}

TEST(Ageing, TrafficKeepsARuleAndBringsItBack) {
  World world;
  world.add(1, 3);
  for (int i = 0; i < 10; ++i) {
    ++world.packets[1];
    EXPECT_FALSE(world.look(2 * kSecond));
  }
  EXPECT_TRUE(world.look(3 * kSecond));
  ++world.packets[1];
  world.look(kSecond);
  EXPECT_EQ(world.aged(), 0u);
}

TEST(Ageing, IsToldAgainAfterTheUserHasAsked) {
  World world;
  world.add(1, 1);
  world.add(2, 2);
  EXPECT_TRUE(world.look(kSecond));
  EXPECT_FALSE(world.look(kSecond)) << "the user has not asked";
  EXPECT_EQ(world.aged(), 2u);
  world.add(3, 1);
  EXPECT_TRUE(world.look(kSecond));
}

TEST(Ageing, ARemovedRuleIsToldNoMore) {
  World world;
  Age* const one = world.add(1, 1);
  world.add(2, 1);
  Age* const three = world.add(3, 1);
  world.look(kSecond);
  world.ageing.remove(one);
  world.ageing.remove(three);
  void* contexts[4]{};
  EXPECT_EQ(world.ageing.aged(contexts, 4), 1u);
  EXPECT_EQ(contexts[0], &world.contexts[2]);
}

TEST(Ageing, RulesThatShareAnAgeKeepEachOtherYoung) {
  World world;
  Age* const age = world.add(1, 3);
  age->join(2, world.packets[2], world.now);
  for (int i = 0; i < 10; ++i) {
    ++world.packets[1 + i % 2];
    EXPECT_FALSE(world.look(2 * kSecond));
  }
  ++world.packets[2];  // No look sees it before the rule ends.
  age->leave(2, world.packets[2], world.now);
  EXPECT_FALSE(world.look(2 * kSecond));
  ++world.packets[2];
  EXPECT_TRUE(world.look(kSecond)) << "a rule that has left does not count";
}

TEST(Ageing, WithoutARuleNothingAges) {
  World world;
  Age* const age = world.add(1, 1);
  age->leave(1, 0, world.now);
  EXPECT_FALSE(world.look(5 * kSecond));
  age->join(1, 0, world.now);
  EXPECT_TRUE(world.look(kSecond));
}

TEST(Ageing, AnAgeOfNoTimeWaits) {
  World world;
  Age* const age = world.add(1, 1);
  age->timeout = 0;
  EXPECT_FALSE(world.look(5 * kSecond));
  age->timeout = 7 * kSecond;
  EXPECT_FALSE(world.look(kSecond));
  EXPECT_TRUE(world.look(kSecond));
}

}  // namespace
}  // namespace verbatim::offload::driver

// Many messages between many programs, with queue pairs that are cut at any time.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "ulp/rds/world_for_test.h"

namespace verbatim::ulp::rds {
namespace {

struct Flow {
  World::Program* from;
  World::Program* to;
  std::uint64_t sent = 0;
};

/// Each message once, and in the order in which it was sent.
void expect_all(const std::vector<Flow>& flows) {
  for (const Flow& flow : flows) {
    std::uint64_t next = 0;
    for (const World::Received& received : flow.to->read) {
      if (received.from != flow.from->own) continue;
      ASSERT_EQ(received.bytes, content_of(next, received.bytes.size()));
      ++next;
    }
    ASSERT_EQ(next, flow.sent) << flow.from->own.text() << " to " << flow.to->own.text();
  }
}

void run_seed(std::uint64_t seed, double cut) {
  World world({.seed = seed, .nodes = 3, .cut = cut, .fragments = 2048});
  std::vector<World::Program*> programs;
  for (std::size_t node = 0; node < 3; ++node) {
    for (const std::uint16_t port : {std::uint16_t{4000}, std::uint16_t{4001}})
      programs.push_back(&world.open(node, port));
  }
  for (World::Program* const one : programs) {
    one->room = 1 + world.below(20);
    world.broker(one->node).find(one->socket)->receive_limit = 20'000 + world.below(100'000);
  }
  std::vector<Flow> flows;
  for (World::Program* const from : programs) {
    for (World::Program* const to : programs) flows.push_back({from, to});
  }
  for (std::uint64_t step = 0; step < 400; ++step) {
    Flow& flow = flows[world.below(static_cast<std::uint32_t>(flows.size()))];
    const std::uint32_t bytes = world.below(4) == 0 ? world.below(40'000) : 8 + world.below(2'000);
    const bool may = !flow.from->is_paused &&
                     world.broker(flow.from->node).may_send(flow.from->socket, flow.to->own, 0);
    if (may && world.send(*flow.from, flow.to->own, content_of(flow.sent, bytes))) ++flow.sent;
    if (world.below(20) == 0) {
      World::Program* const one = programs[world.below(6)];
      one->reads = !one->reads;
    }
    world.step();
  }
  world.set_cut(0);
  for (World::Program* const one : programs) one->reads = true;
  for (World::Program* const one : programs) world.broker(one->node).on_room(one->socket);
  world.run(300'000);
  expect_all(flows);
  for (std::size_t node = 0; node < 3; ++node) EXPECT_EQ(world.pool(node).free(), 2048u);
}

TEST(RdsWorld, EveryMessageComesOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    run_seed(seed, 0);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RdsWorld, AlsoIfQueuePairsAreCut) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    run_seed(seed, 0.01);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RdsWorld, ABrokerThatBeginsAnewIsFoundAgain) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    World world({.seed = seed, .fragments = 512});
    World::Program* here = &world.open(0, 4000);
    for (std::uint64_t round = 0; round < 3; ++round) {
      World::Program& there = world.open(1, 4001);
      std::vector<Flow> flows{{here, &there}, {&there, here}};
      here->read.clear();
      for (std::uint64_t i = 0; i < 5; ++i) {
        ASSERT_TRUE(world.send(*here, there.own, content_of(flows[0].sent++, 100)));
        ASSERT_TRUE(world.send(there, here->own, content_of(flows[1].sent++, 100)));
      }
      if (round == 1) world.cut_all();
      world.run(300'000);
      expect_all(flows);
      world.restart(1);
      world.run(1'000);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace verbatim::ulp::rds

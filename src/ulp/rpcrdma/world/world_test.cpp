#include <gtest/gtest.h>

#include "ulp/rpcrdma/world/world_for_test.h"

namespace verbatim::ulp::rpcrdma {
namespace {

void expect_transparent(const World::Options& options, std::uint64_t seeds, int calls) {
  std::uint64_t early = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    World world(seed, options);
    world.run(calls);
    EXPECT_EQ(world.finish(), std::vector<std::string>{}) << "seed " << seed;
    EXPECT_GT(world.moved(), 0u);
    early += world.early();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(early, 0u);
}

TEST(RpcRdmaWorld, WhatOneEndSaysIsWhatTheOtherHears) { expect_transparent({}, 12, 150); }

TEST(RpcRdmaWorld, WithMemoryForFewCallsAtATime) {
  expect_transparent({.large_pieces = 2 * kPiecesMax}, 8, 100);
}

TEST(RpcRdmaWorld, WithPeersThatSendAndReceiveTheLeast) {
  expect_transparent({.limits = {.send = 1024, .receive = 1024}}, 8, 100);
}

TEST(RpcRdmaWorld, WithConnectionsThatEndAtAnyTime) { expect_transparent({.cut = 0.01}, 10, 100); }

}  // namespace
}  // namespace verbatim::ulp::rpcrdma

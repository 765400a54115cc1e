#include <gtest/gtest.h>

#include "ulp/nvmeof/world/world_for_test.h"

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint64_t kSeeds = 100;
constexpr int kSteps = 5000;
const std::vector<std::string> kNone;

TEST(NvmeWorld, NoAcknowledgedWriteIsLostAndNothingIsLeftBehind) {
  std::uint64_t reads = 0, writes = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed, {});
    world.run(kSteps);
    EXPECT_EQ(world.finish(), kNone) << "seed " << seed;
    reads += world.reads();
    writes += world.writes();
  }
  EXPECT_GT(reads, 10 * kSeeds);  // Else the world is too hard to live in.
  EXPECT_GT(writes, 10 * kSeeds);
}

TEST(NvmeWorld, AFailingStoreIsAnErrorOfItsCommandAlone) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed, {.cut = 0.0005, .store_error = 0.05});
    world.run(kSteps);
    EXPECT_EQ(world.finish(), kNone) << "seed " << seed;
  }
}

TEST(NvmeWorld, AHostileHostHurtsNobodyElse) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed, {.cut = 0, .hostile = 0.5, .vanish = 0});
    world.run(kSteps);
    EXPECT_EQ(world.finish(), kNone) << "seed " << seed;
  }
}

TEST(NvmeWorld, WhoIsKeptOutWritesNothing) {
  std::uint64_t refused = 0, preemptions = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed, {.vanish = 0, .store_sleeps = 0.6, .reserve = 0.05});
    world.run(kSteps);
    EXPECT_EQ(world.finish(), kNone) << "seed " << seed;
    refused += world.refused_writes();
    preemptions += world.preemptions();
  }
  EXPECT_GT(refused, 2 * kSeeds);
  EXPECT_GT(preemptions, kSeeds / 10);
}

TEST(NvmeWorld, CutsBetweenAnyTwoSteps) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed, {.cut = 0.05, .vanish = 0.005});
    world.run(kSteps);
    EXPECT_EQ(world.finish(), kNone) << "seed " << seed;
  }
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof

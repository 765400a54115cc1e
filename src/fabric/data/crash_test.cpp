#include <cstdlib>

#include <gtest/gtest.h>

#include "fabric/data/crash_lab_for_test.h"

namespace verbatim::fabric {
namespace {

/// FABRIC_DEATHS and FABRIC_SEED: for the long set, and to repeat what has failed.
unsigned from_environment(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}

void run(bool kills_receivers) {
  const unsigned seed = from_environment("FABRIC_SEED", 1);
  const unsigned deaths = from_environment("FABRIC_DEATHS", 60);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  CrashLab lab(seed, kills_receivers);
  for (const std::string& fault : lab.run(deaths)) ADD_FAILURE() << fault;
  if (deaths < 5000) return;
  for (std::size_t point = 0; point < kCrashPoints; ++point) {
    EXPECT_GT(lab.deaths_at(static_cast<CrashPoint>(point)), 0u) << "point " << point;
  }
}

TEST(FabricCrash, KilledSendersAndMoversLoseNothingOfOthers) { run(false); }
TEST(FabricCrash, KilledReceiversLeaveNothingBehind) { run(true); }

}  // namespace
}  // namespace verbatim::fabric

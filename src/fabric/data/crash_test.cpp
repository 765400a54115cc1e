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

void run(CrashLab::Options options) {
  const unsigned seed = from_environment("FABRIC_SEED", 1);
  const unsigned deaths = from_environment("FABRIC_DEATHS", options.is_slow ? 200 : 60);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  CrashLab lab(seed, options);
  for (const std::string& fault : lab.run(deaths)) ADD_FAILURE() << fault;
  if (deaths < 5000) return;
  for (std::size_t point = 0; point < kCrashPoints; ++point) {
    const auto place = static_cast<CrashPoint>(point);
    const bool is_of_router =
        place == CrashPoint::hop_limit_noted || place == CrashPoint::headers_rewritten;
    const bool is_of_multicast =
        place >= CrashPoint::copy_claimed && place <= CrashPoint::copies_made;
    // Somebody sleeps, and something waits for a time.
    const bool is_of_slow_links = place == CrashPoint::sleeper_found ||
                                  place == CrashPoint::timer_noted ||
                                  place == CrashPoint::timer_ended;
    if (!options.is_slow && is_of_slow_links) continue;
    if (options.has_router ? is_of_multicast : is_of_router) continue;
    EXPECT_GT(lab.deaths_at(static_cast<CrashPoint>(point)), 0u) << "point " << point;
  }
}

TEST(FabricCrash, KilledSendersAndMoversLoseNothingOfOthers) { run({}); }
TEST(FabricCrash, KilledReceiversLeaveNothingBehind) { run({.kills_receivers = true}); }
TEST(FabricCrash, ThroughARouterNoHopIsCountedTwice) { run({.has_router = true}); }
TEST(FabricCrash, OnSlowLinksNobodyWaitsForTheDead) { run({.is_slow = true}); }
TEST(FabricCrash, OnSlowLinksNobodyWaitsForDeadReceivers) {
  run({.kills_receivers = true, .is_slow = true});
}

}  // namespace
}  // namespace verbatim::fabric

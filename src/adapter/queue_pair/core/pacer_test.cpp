#include "adapter/queue_pair/core/pacer.h"

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

/// Returns the bytes that are sent within `span` if the sender asks every `step`.
std::uint64_t sent(Pacer& pacer, TimeNs from, TimeNs span, TimeNs step) {
  constexpr std::uint64_t kPacket = 1000;
  std::uint64_t bytes = 0;
  for (TimeNs now = from; now < from + span; now += step) {
    while (pacer.admits(now)) {
      pacer.count(now, kPacket);
      bytes += kPacket;
      if (bytes > 1'000'000'000) return bytes;
    }
  }
  return bytes;
}

TEST(Pacer, WithoutALimitAdmitsAll) {
  Pacer pacer;
  pacer.count(kSecond, 1 << 30);
  EXPECT_TRUE(pacer.admits(kSecond));
}

TEST(Pacer, HoldsToTheRateHoweverOftenItIsAsked) {
  for (const TimeNs step : {kMicrosecond, 50 * kMicrosecond, kMillisecond}) {
    Pacer pacer;
    pacer.limit(80'000, 64 << 10);  // 10 MB/s.
    const auto bytes = sent(pacer, 5 * kSecond, kSecond, step);
    EXPECT_NEAR(static_cast<double>(bytes), 10e6, 0.1e6) << step;
  }
}

TEST(Pacer, IdleTimeIsWorthOneBurst) {
  Pacer pacer;
  pacer.limit(8'000, 4000);  // A byte per microsecond.
  EXPECT_EQ(sent(pacer, 60 * kSecond, 1, 1), 5000u);
  EXPECT_EQ(pacer.free_at(), 60 * kSecond + kMillisecond);
}

TEST(Pacer, SlowPathsDelayWhatFollows) {
  Pacer pacer;
  pacer.limit(0, 0);
  pacer.count(kSecond, 1000, 8'000);
  EXPECT_EQ(pacer.free_at(), kSecond + kMillisecond);
  pacer.count(2 * kSecond, 1000);
  EXPECT_TRUE(pacer.admits(2 * kSecond)) << "that path has no limit";
  pacer.limit(4'000, 0);
  pacer.count(kSecond, 1000, 8'000);
  EXPECT_EQ(pacer.free_at(), kSecond + 2 * kMillisecond) << "the lower one counts";
}

TEST(Pacer, SlowestRateStillSends) {
  Pacer pacer;
  pacer.limit(1, 0);
  EXPECT_TRUE(pacer.admits(kSecond));
  pacer.count(kSecond, 4096);
  EXPECT_EQ(pacer.free_at(), kSecond + 4096ull * 8'000'000);
}

}  // namespace
}  // namespace verbatim::adapter

#include "offload/switch/meter.h"

#include <gtest/gtest.h>

#include "sim/random.h"

namespace verbatim::offload {
namespace {

using enum MeterProfile::Algorithm;

/// The definition, token by token. Rates divide 10^9.
class PlainMeter {
 public:
  explicit PlainMeter(const MeterProfile& profile)
      : profile_(profile), committed_(profile.committed_burst), other_(profile.other_burst) {}

  Color mark(std::uint64_t amount, TimeNs now) {
    for (; last_ < now; ++last_) tick();
    if (profile_.algorithm == kTwoRate) {
      if (other_ < amount) return Color::kRed;
      other_ -= amount;
      if (committed_ < amount) return Color::kYellow;
      committed_ -= amount;
      return Color::kGreen;
    }
    if (committed_ >= amount) {
      committed_ -= amount;
      return Color::kGreen;
    }
    if (other_ < amount) return Color::kRed;
    other_ -= amount;
    return Color::kYellow;
  }

 private:
  bool is_due(std::uint64_t rate) const { return rate != 0 && (last_ + 1) % (kSecond / rate) == 0; }
  void tick() {
    if (is_due(profile_.committed_rate)) {
      if (committed_ < profile_.committed_burst) {
        ++committed_;
      } else if (profile_.algorithm == kSingleRate && other_ < profile_.other_burst) {
        ++other_;
      }
    }
    if (profile_.algorithm == kTwoRate && is_due(profile_.peak_rate) &&
        other_ < profile_.other_burst) {
      ++other_;
    }
  }
  const MeterProfile profile_;
  std::uint64_t committed_;
  std::uint64_t other_;
  TimeNs last_ = 0;
};

TEST(Meter, AgreesWithTheDefinitionTokenByToken) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    sim::Random random(seed);
    MeterProfile profile{.algorithm = seed % 2 == 0 ? kSingleRate : kTwoRate,
                         .committed_rate = random.chance(0.5) ? 100'000'000u : 50'000'000u,
                         .committed_burst = random.between(0, 2000),
                         .other_burst = random.between(0, 3000)};
    profile.peak_rate = profile.committed_rate * 2;
    Meter meter(profile, 0);
    PlainMeter plain(profile);
    TimeNs now = 0;
    for (int i = 0; i < 300; ++i) {
      now += random.below(20'000);
      const std::uint64_t bytes = random.between(64, 1500);
      ASSERT_EQ(meter.mark(bytes, now), plain.mark(bytes, now)) << "packet " << i;
    }
  }
}

TEST(Meter, RFC2697_ExcessIsFilledWhenTheCommittedBucketIsFull) {
  Meter meter({.committed_rate = 1000, .committed_burst = 500, .other_burst = 500}, 0);
  EXPECT_EQ(meter.mark(500, 0), Color::kGreen);
  EXPECT_EQ(meter.mark(500, 0), Color::kYellow);
  EXPECT_EQ(meter.mark(1, 0), Color::kRed);
  EXPECT_EQ(meter.mark(501, kSecond / 2), Color::kRed) << "the committed bucket has 500";
  EXPECT_EQ(meter.mark(500, kSecond), Color::kGreen);
  EXPECT_EQ(meter.mark(500, kSecond), Color::kYellow) << "it was full for half a second";
}

TEST(Meter, RFC2698_PeakIsTakenFromFirst) {
  Meter meter({.algorithm = kTwoRate,
               .committed_rate = 100,
               .peak_rate = 1000,
               .committed_burst = 100,
               .other_burst = 300},
              0);
  EXPECT_EQ(meter.mark(100, 0), Color::kGreen);
  EXPECT_EQ(meter.mark(100, 0), Color::kYellow);
  EXPECT_EQ(meter.mark(100, 0), Color::kYellow);
  EXPECT_EQ(meter.mark(1, 0), Color::kRed);
  EXPECT_EQ(meter.mark(200, kSecond), Color::kYellow) << "more than was committed";
  EXPECT_EQ(meter.mark(100, kSecond), Color::kGreen);
}

TEST(Meter, OfPacketsAndFarInTime) {
  Meter meter({.counts_packets = true, .committed_rate = 2, .committed_burst = 2}, 0);
  EXPECT_EQ(meter.mark(9000, 0), Color::kGreen);
  EXPECT_EQ(meter.mark(64, 0), Color::kGreen);
  EXPECT_EQ(meter.mark(64, 0), Color::kRed);
  EXPECT_EQ(meter.mark(64, kSecond / 2), Color::kGreen);
  EXPECT_EQ(meter.mark(64, ~TimeNs{0}), Color::kGreen);
  EXPECT_EQ(meter.mark(64, 0), Color::kGreen) << "time does not go back";
}

TEST(Meters, DropByColorAndCount) {
  Meters meters(2);
  MeterCount count;
  EXPECT_TRUE(meters.pass(1, 100, 0, count)) << "there is no such meter";
  EXPECT_FALSE(meters.set(2, {}, 0));
  ASSERT_TRUE(
      meters.set(1, {.drops = {false, true, true}, .committed_burst = 100, .other_burst = 100}, 0));
  EXPECT_TRUE(meters.pass(1, 100, 0, count));
  EXPECT_FALSE(meters.pass(1, 100, 0, count));
  EXPECT_FALSE(meters.pass(1, 60, 0, count));
  EXPECT_EQ(count.packets, (std::array<std::uint64_t, 3>{1, 1, 1}));
  EXPECT_EQ(count.bytes, (std::array<std::uint64_t, 3>{100, 100, 60}));
  EXPECT_EQ(count.dropped_packets, 2u);
  EXPECT_EQ(count.dropped_bytes, 160u);
  EXPECT_TRUE(meters.clear(1));
  EXPECT_FALSE(meters.clear(1));
}

TEST(Meters, ALargeFramePassesWholeOnlyIfAllOfItIsGreen) {
  Meters meters(1);
  MeterCount count;
  ASSERT_TRUE(meters.set(0, {.committed_burst = 3000, .other_burst = 3000}, 0));
  EXPECT_FALSE(meters.pass_whole(0, 3, 4500, 0, count));
  EXPECT_EQ(count.packets[0], 0u);
  EXPECT_TRUE(meters.pass_whole(0, 2, 3000, 0, count));
  EXPECT_EQ(count.packets[0], 2u);
  EXPECT_EQ(count.bytes[0], 3000u);
}

}  // namespace
}  // namespace verbatim::offload

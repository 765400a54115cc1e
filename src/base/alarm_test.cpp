#include "base/alarm.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace verbatim {
namespace {

bool rings(const Alarm& alarm, int milliseconds) {
  pollfd look{.fd = alarm.fd(), .events = POLLIN, .revents = 0};
  return poll(&look, 1, milliseconds) == 1;
}

class AlarmTest : public testing::Test {
 protected:
  static constexpr int kLong = 10'000;
  Alarm alarm = Alarm::create().value();
};

TEST_F(AlarmTest, RingsAtItsTimeUntilItIsCleared) {
  EXPECT_FALSE(rings(alarm, 0));
  const TimeNs at = monotonic_now() + 5 * kMillisecond;
  alarm.set(at);
  EXPECT_EQ(alarm.at(), at);
  EXPECT_TRUE(rings(alarm, kLong));
  EXPECT_GE(monotonic_now(), at);
  EXPECT_TRUE(rings(alarm, 0));
  alarm.clear();
  EXPECT_EQ(alarm.at(), kNever);
  EXPECT_FALSE(rings(alarm, 0));
}

TEST_F(AlarmTest, RingsAtOnceForATimeThatHasBeen) {
  alarm.set(1);
  EXPECT_TRUE(rings(alarm, kLong));
}

TEST_F(AlarmTest, OfNoTimeDoesNotRing) {
  alarm.set(1);
  alarm.set(kNever);
  EXPECT_FALSE(rings(alarm, 0));
}

}  // namespace
}  // namespace verbatim

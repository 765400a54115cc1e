#include "base/os/timer_fd.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace verbatim {
namespace {

bool rings(const TimerFd& timer_fd, int milliseconds) {
  pollfd look{.fd = timer_fd.fd(), .events = POLLIN, .revents = 0};
  return poll(&look, 1, milliseconds) == 1;
}

class TimerFdTest : public testing::Test {
 protected:
  static constexpr int kLong = 10'000;
  TimerFd timer_fd = TimerFd::create().value();
};

TEST_F(TimerFdTest, RingsAtItsTimeUntilItIsCleared) {
  EXPECT_FALSE(rings(timer_fd, 0));
  const TimeNs at = monotonic_now() + 5 * kMillisecond;
  timer_fd.set(at);
  EXPECT_EQ(timer_fd.at(), at);
  EXPECT_TRUE(rings(timer_fd, kLong));
  EXPECT_GE(monotonic_now(), at);
  EXPECT_TRUE(rings(timer_fd, 0));
  timer_fd.clear();
  EXPECT_EQ(timer_fd.at(), kNever);
  EXPECT_FALSE(rings(timer_fd, 0));
}

TEST_F(TimerFdTest, RingsAtOnceForATimeThatHasBeen) {
  timer_fd.set(1);
  EXPECT_TRUE(rings(timer_fd, kLong));
}

TEST_F(TimerFdTest, OfNoTimeDoesNotRing) {
  timer_fd.set(1);
  timer_fd.set(kNever);
  EXPECT_FALSE(rings(timer_fd, 0));
}

}  // namespace
}  // namespace verbatim

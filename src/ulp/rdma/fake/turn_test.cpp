#include "ulp/rdma/turn.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::rdma {
namespace {

TEST(Turn, SpinsAsLongAsItWasTold) {
  Turn turn(50 * kMicrosecond);
  EXPECT_EQ(turn.after(true, kSecond), Turn::Next::poll);
  EXPECT_EQ(turn.after(false, kSecond + 49 * kMicrosecond), Turn::Next::poll);
  EXPECT_EQ(turn.after(false, kSecond + 50 * kMicrosecond), Turn::Next::arm_and_sleep);
}

TEST(Turn, ZeroSleepsAtOnceAndNeverPollsForEver) {
  EXPECT_EQ(Turn(0).after(false, kSecond), Turn::Next::arm_and_sleep);
  EXPECT_EQ(Turn(kNever).after(false, 3600 * kSecond), Turn::Next::poll);
}

TEST(Turn, SpinsAgainAfterItWasWoken) {
  Turn turn;
  turn.sleep();
  EXPECT_TRUE(turn.is_asleep());
  turn.wake(kSecond);
  EXPECT_FALSE(turn.is_asleep());
  EXPECT_EQ(turn.after(false, kSecond + kMicrosecond), Turn::Next::poll);
}

}  // namespace
}  // namespace verbatim::ulp::rdma

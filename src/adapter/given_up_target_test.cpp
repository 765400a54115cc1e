#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "arena/target.h"

/// A target whose holder lives and does not go on.
namespace verbatim::arena {
namespace {

struct StoppedHolder : testing::Test {
  StoppedHolder() { EXPECT_TRUE(target->lock.try_lock()); }
  const std::unique_ptr<DirectTarget> target = std::make_unique<DirectTarget>();
};

TEST_F(StoppedHolder, IsNotWaitedForByWhoAsks) { EXPECT_FALSE(lock_soon(*target)); }

TEST_F(StoppedHolder, IsGivenUpByTheOwnerAndThenBeginsNoStep) {
  EXPECT_FALSE(lock_or_give_up(*target));
  EXPECT_FALSE(target->begin_step());
  EXPECT_FALSE(target->in_step);
  EXPECT_FALSE(take_back(*target));
  target->lock.unlock();
  EXPECT_TRUE(take_back(*target));
  EXPECT_TRUE(target->begin_step());
}

TEST_F(StoppedHolder, IsWaitedForWhileItIsInAStep) {
  ASSERT_TRUE(target->begin_step());
  std::atomic<bool> has_ended{false};
  bool is_locked = true;
  std::thread owner([&] {
    is_locked = lock_or_give_up(*target);
    has_ended = true;
  });
  for (int tries = 0; tries < 3; ++tries) {
    while (!target->given_up) std::this_thread::yield();
    while (target->given_up) std::this_thread::yield();
  }
  EXPECT_FALSE(has_ended);
  target->end_step();
  owner.join();
  EXPECT_FALSE(is_locked);
  EXPECT_TRUE(target->given_up);
}

TEST_F(StoppedHolder, ThatGoesOnIsNotGivenUp) {
  std::thread holder([this] { target->lock.unlock(); });
  EXPECT_TRUE(lock_or_give_up(*target));
  EXPECT_FALSE(target->given_up);
  holder.join();
}

}  // namespace
}  // namespace verbatim::arena

#include "base/files/name_locks.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim {
namespace {

using enum NameLocks::Kind;

class NameLocksTest : public testing::Test {
 protected:
  void TearDown() override { unlink(path_.c_str()); }
  const std::string path_ = testing::TempDir() + "verbatim-locks-" + std::to_string(getpid());
  const NameLocks locks_{path_};
};

TEST_F(NameLocksTest, AnExclusiveLockIsOneDescriptorsUntilItIsClosed) {
  auto first = locks_.take("a", exclusive);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(locks_.take("a", exclusive).error().code, EWOULDBLOCK);
  EXPECT_EQ(locks_.take("a", shared).error().code, EWOULDBLOCK);
  EXPECT_TRUE(locks_.take("b", exclusive));
  first->reset();
  EXPECT_TRUE(locks_.take("a", exclusive));
}

TEST_F(NameLocksTest, SharedLocksAreSeenAndKeepAnExclusiveOneOut) {
  EXPECT_FALSE(*locks_.is_held("a"));
  auto first = locks_.take("a", shared);
  auto second = locks_.take("a", shared);
  ASSERT_TRUE(first && second);
  first->reset();
  EXPECT_TRUE(*locks_.is_held("a"));
  EXPECT_FALSE(*locks_.is_held("b"));
  EXPECT_EQ(locks_.take("a", exclusive).error().code, EWOULDBLOCK);
  second->reset();
  EXPECT_FALSE(*locks_.is_held("a"));
}

TEST_F(NameLocksTest, ItIsOneUsersFileAndIsRemovedWhenItIsFree) {
  auto held = locks_.take("a", shared);
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  locks_.remove_if_free();
  EXPECT_EQ(access(path_.c_str(), F_OK), 0);
  held->reset();
  locks_.remove_if_free();
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(NameLocksTest, OneAtATimeHasItThoughTheFileIsRemovedBetween) {
  int inside = 0;  // Protected only by the lock.
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        auto own = locks_.take("a", exclusive, 60 * kSecond);
        ASSERT_TRUE(own) << own.error().text;
        EXPECT_EQ(__atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED), 1);
        __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
        own->reset();
        locks_.remove_if_free();
      }
    });
  }
}

}  // namespace
}  // namespace verbatim

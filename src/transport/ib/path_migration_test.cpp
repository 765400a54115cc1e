#include "transport/ib/path_migration.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using State = PathMigrationState;

/// Two ends that hear of each other's bit M.
struct MigrationEnds : testing::Test {
  static bool tell(const PathMigration& from, PathMigration& to) {
    return to.on_packet(from.sends_migrated());
  }
  void arm() {
    left.rearm();
    right.rearm();
    EXPECT_FALSE(tell(left, right));
    EXPECT_FALSE(tell(right, left));
  }
  PathMigration left, right;
};

TEST_F(MigrationEnds, AreArmedWhenBothHaveRearmed) {
  left.rearm();
  EXPECT_FALSE(tell(right, left));
  EXPECT_EQ(left.state(), State::rearm);
  right.rearm();
  EXPECT_FALSE(tell(left, right));
  EXPECT_EQ(right.state(), State::armed);
  EXPECT_FALSE(tell(right, left));
  EXPECT_EQ(left.state(), State::armed);
}

TEST_F(MigrationEnds, FollowEachOther) {
  arm();
  left.migrate();
  EXPECT_TRUE(tell(left, right));
  right.migrate();
  EXPECT_FALSE(tell(right, left));
  EXPECT_FALSE(tell(left, right));
}

TEST_F(MigrationEnds, MigrateAgainAfterTheyAreArmedAgain) {
  arm();
  left.migrate();
  right.migrate();
  arm();
  EXPECT_TRUE(left.is_armed() && right.is_armed());
}

TEST_F(MigrationEnds, OnlyProgramsRearmAndNobodyArms) {
  EXPECT_TRUE(left.may_become(State::migrated));
  EXPECT_FALSE(left.may_become(State::armed));
  left.rearm();
  EXPECT_FALSE(left.may_become(State::migrated));
  EXPECT_TRUE(left.may_become(State::rearm));
  right.rearm();
  tell(right, left);
  EXPECT_TRUE(left.may_become(State::migrated));
}

}  // namespace
}  // namespace verbatim::transport

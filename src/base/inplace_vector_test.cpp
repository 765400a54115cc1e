#include "base/inplace_vector.h"

#include <memory>
#include <numeric>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(InplaceVector, KeepsOrderAndKnowsWhenItIsFull) {
  InplaceVector<int, 3> list;
  EXPECT_TRUE(list.empty());
  list.push(1);
  list.push(2);
  EXPECT_FALSE(list.full());
  list.push(3) += 10;
  EXPECT_TRUE(list.full());
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0], 1);
  EXPECT_EQ(std::accumulate(list.begin(), list.end(), 0), 16);
}

TEST(InplaceVector, PopTakesTheLastOne) {
  InplaceVector<int, 2> list;
  list.push(1);
  list.push(2);
  EXPECT_EQ(list.pop(), 2);
  EXPECT_EQ(list.pop(), 1);
  EXPECT_TRUE(list.empty());
}

TEST(InplaceVector, ClearMakesRoom) {
  InplaceVector<int, 1> list;
  list.push(1);
  list.clear();
  EXPECT_TRUE(list.empty());
  list.push(2);
  EXPECT_EQ(list[0], 2);
}

TEST(InplaceVector, TakesWhatOnlyMoves) {
  InplaceVector<std::unique_ptr<int>, 2> list;
  list.push(std::make_unique<int>(5));
  EXPECT_EQ(*list[0], 5);
}

TEST(InplaceVectorDeathTest, OneTooManyIsABug) {
  InplaceVector<int, 1> list;
  list.push(1);
  EXPECT_DEATH(list.push(2), "bug: .*size_ < N");
}

TEST(InplaceVector, AreEqualByTheirElements) {
  InplaceVector<int, 3> list{1, 2, 3};
  EXPECT_EQ(list.front(), 1);
  EXPECT_EQ(list.back(), 3);
  list.truncate(2);
  EXPECT_TRUE((list == InplaceVector<int, 3>{1, 2}));
  EXPECT_FALSE((list == InplaceVector<int, 3>{1, 3}));
  list.truncate(9);
  EXPECT_EQ(list.size(), 2u);
}

}  // namespace
}  // namespace verbatim

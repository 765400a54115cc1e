#include "region/cached_hold.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::region {
namespace {

constexpr PdNumber kPd{7};

class CachedHoldTest : public testing::Test {
 protected:
  CachedHoldTest() : entries_(8) { RegionTable::initialise(header_, 0x5ec4e7); }

  MemoryKey add(std::uint64_t address) {
    return *regions_.add({.address = address,
                          .length = 100,
                          .iova = 0,
                          .access = kRemoteRead | kRemoteWrite,
                          .pd = kPd});
  }
  /// Returns the number of holds on any region.
  std::uint32_t holders() const {
    std::uint32_t sum = 0;
    for (const RegionEntry& entry : entries_) sum += entry.holders.load();
    return sum;
  }

  RegionTableHeader header_;
  std::vector<RegionEntry> entries_;
  RegionTable regions_{header_, entries_};
  CachedHold kept_;
};

TEST_F(CachedHoldTest, StaysFromBytesToBytesOfARegion) {
  const MemoryKey key = add(0x10000);
  ASSERT_TRUE(kept_.get(regions_, key, 0, 10, kRemoteWrite, kPd));
  const auto held = kept_.get(regions_, key, 40, 60, kRemoteWrite, kPd);
  ASSERT_TRUE(held);
  EXPECT_EQ((*held)->address(), reinterpret_cast<std::byte*>(0x10000 + 40));
  EXPECT_EQ(holders(), 1u);
  kept_.release();
  EXPECT_EQ(holders(), 0u);
}

/// The kernel may not have read the bytes found before yet.
TEST_F(CachedHoldTest, ARequestBeyondTheRegionDoesNotEndIt) {
  const MemoryKey key = add(0x10000);
  ASSERT_TRUE(kept_.get(regions_, key, 0, 10, kRemoteWrite, kPd));
  const auto beyond = kept_.get(regions_, key, 90, 11, kRemoteWrite, kPd);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error(), KeyError::out_of_bounds);
  EXPECT_EQ(holders(), 1u);
}

TEST_F(CachedHoldTest, EndsWithAnotherRegion) {
  const MemoryKey first = add(0x10000);
  const MemoryKey second = add(0x20000);
  ASSERT_TRUE(kept_.get(regions_, first, 0, 10, kRemoteWrite, kPd));
  const auto held = kept_.get(regions_, second, 0, 10, kRemoteWrite, kPd);
  ASSERT_TRUE(held);
  EXPECT_EQ((*held)->address(), reinterpret_cast<std::byte*>(0x20000));
  EXPECT_TRUE(regions_.remove(first)) << "and does not wait";
}

TEST_F(CachedHoldTest, AnotherRightOrAskerIsCheckedAnew) {
  const MemoryKey key = add(0x10000);
  ASSERT_TRUE(kept_.get(regions_, key, 0, 10, kRemoteWrite, kPd));
  const auto atomic = kept_.get(regions_, key, 0, 8, kRemoteAtomic, kPd);
  ASSERT_FALSE(atomic);
  EXPECT_EQ(atomic.error(), KeyError::missing_right);
  ASSERT_TRUE(kept_.get(regions_, key, 0, 10, kRemoteWrite, kPd));
  const auto stranger = kept_.get(regions_, key, 0, 10, kRemoteWrite, PdNumber{8});
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error(), KeyError::wrong_domain);
}

}  // namespace
}  // namespace verbatim::region

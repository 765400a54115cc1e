#include <vector>

#include <gtest/gtest.h>

#include "region/region_table.h"

/// What peers read of a region's place in the memory file, and what they pay.
namespace verbatim::region {
namespace {

constexpr PdNumber kPd{7};
const Accessor kBy{kPd, Qpn(0x11)};
constexpr std::uint64_t kAddress = 0x10000;

class RegionBacking : public testing::Test {
 protected:
  RegionBacking()
      : entries_(64), table((RegionTable::initialise(header_, 0x5ec4e7), header_), entries_) {}

  MemoryKey add(std::uint64_t price) {
    return *table.add({.address = kAddress,
                       .length = 0x4000,
                       .iova = kAddress,
                       .access = kLocalWrite | kRemoteWrite | kMwBind,
                       .pd = kPd,
                       .backing = {.address = kAddress, .price = price}});
  }
  const Region& find(MemoryKey key) const {
    KeyCache cache;
    return **table.find_locked(key, kAddress + 8, 8, kRemoteWrite, kBy, cache);
  }
  MemoryKey bind_window(MemoryKey to) {
    const MemoryKey window = *table.add_window(EntryKind::window_2, kPd);
    const MemoryKey key{raw(window) ^ 1};
    EXPECT_TRUE(table.bind({.window = window,
                            .key = key,
                            .region = to,
                            .address = kAddress,
                            .length = 64,
                            .access = kRemoteWrite},
                           kBy));
    return key;
  }

  RegionTableHeader header_;
  std::vector<RegionEntry> entries_;
  RegionTable table;
};

TEST_F(RegionBacking, WhatHasMovedIsPublishedAlsoForWindows) {
  const MemoryKey key = add(100);
  const MemoryKey before = bind_window(key);
  EXPECT_EQ(find(key).backing.moved(), 0u);
  ASSERT_TRUE(table.set_moved(key, kAddress, 0x2000));
  EXPECT_EQ(find(key).backing.moved(), 0x2000u);
  EXPECT_EQ(find(before).backing.moved(), 0x2000u);
  EXPECT_EQ(find(bind_window(key)).backing.moved(), 0x2000u);
}

TEST_F(RegionBacking, AKeyThatNamesOtherMemoryPublishesNothing) {
  const MemoryKey key = add(100);
  EXPECT_FALSE(table.set_moved(key, kAddress + 0x1000, 0x2000));
  EXPECT_EQ(find(key).backing.moved(), 0u);
  ASSERT_TRUE(table.remove(key));
  EXPECT_FALSE(table.set_moved(key, kAddress, 0x2000));
}

TEST_F(RegionBacking, TheOwnerIsAskedWhenPeersHavePaidThePrice) {
  const MemoryKey key = add(100);
  const MemoryKey window = bind_window(key);
  EXPECT_EQ(table.pay(find(key), 60), MemoryKey{});
  EXPECT_EQ(table.pay(find(window), 40), key) << "for the window's region";
  EXPECT_EQ(table.pay(find(key), 1), key) << "until the owner answers";
  table.set_price(key, 50);
  EXPECT_EQ(table.pay(find(key), 49), MemoryKey{});
  EXPECT_EQ(table.pay(find(key), 1), key);
}

TEST_F(RegionBacking, MemoryThatNeverMovesIsNotAskedFor) {
  const MemoryKey key = add(Backing::kNever);
  EXPECT_EQ(table.pay(find(key), 1'000'000'000), MemoryKey{});
}

TEST_F(RegionBacking, OverlapsByTheirRights) {
  const MemoryKey key = add(100);
  EXPECT_FALSE(table.any_overlaps(kAddress, 0x4000, kOnDemand));
  EXPECT_TRUE(table.any_overlaps(kAddress + 0x3fff, 1, kRemoteWrite));
  EXPECT_FALSE(table.any_overlaps(kAddress + 0x4000, 1, kRemoteWrite));
  EXPECT_FALSE(table.any_overlaps(kAddress - 1, 1, kRemoteWrite));
  ASSERT_TRUE(table.remove(key));
  EXPECT_FALSE(table.any_overlaps(kAddress, 0x4000, kRemoteWrite));
}

}  // namespace
}  // namespace verbatim::region

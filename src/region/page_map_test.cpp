#include "region/page_map.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::region {
namespace {

/// A map of so many pages in zeroed memory, as an arena gives it.
struct Made {
  explicit Made(std::uint64_t pages) : words(PageMap::bytes_for(pages) / sizeof(std::uint64_t)) {}
  std::vector<std::uint64_t> words;
  PageMap map{reinterpret_cast<std::byte*>(words.data())};
};

TEST(PageMap, EachPageHasItsState) {
  Made made(200);
  made.map.set(PageState::moved, 60, 70);
  made.map.set(PageState::kept, 130, 3);
  EXPECT_EQ(made.map.state(59), PageState::apart);
  EXPECT_EQ(made.map.state(60), PageState::moved);
  EXPECT_EQ(made.map.state(129), PageState::moved);
  EXPECT_EQ(made.map.state(130), PageState::kept);
  EXPECT_EQ(made.map.state(133), PageState::apart);
}

TEST(PageMap, WhatHasMovedCountsAsMovedThoughItWasKept) {
  Made made(1);
  made.map.set(PageState::kept, 0, 1);
  made.map.set(PageState::moved, 0, 1);
  EXPECT_EQ(made.map.state(0), PageState::moved);
}

TEST(PageMap, ARunEndsWhereTheStateChangesOrWhereItIsToEnd) {
  Made made(300);
  made.map.set(PageState::moved, 10, 200);
  made.map.set(PageState::kept, 210, 1);
  const auto expect_run = [&](std::uint64_t first, std::uint64_t most, PageState state,
                              std::uint64_t pages) {
    const auto run = made.map.run(first, most);
    EXPECT_EQ(run.state, state);
    EXPECT_EQ(run.pages, pages);
  };
  expect_run(0, 300, PageState::apart, 10);
  expect_run(10, 290, PageState::moved, 200);
  expect_run(63, 2, PageState::moved, 2);
  expect_run(64, 64, PageState::moved, 64);
  expect_run(209, 91, PageState::moved, 1);
  expect_run(210, 90, PageState::kept, 1);
  expect_run(211, 89, PageState::apart, 89);
}

TEST(PageMap, CountsReaches) {
  Made made(1);
  EXPECT_EQ(made.map.count_reach(), 0u);
  EXPECT_EQ(made.map.count_reach(), 1u);
  EXPECT_EQ(made.map.state(0), PageState::apart);
}

}  // namespace
}  // namespace verbatim::region

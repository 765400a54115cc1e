#include "region/use_counts.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

namespace verbatim::region {
namespace {

using Parts = std::vector<PageRange>;

TEST(UseCounts, APartIsUnusedWhenItsLastUserHasGone) {
  UseCounts counts;
  counts.add({10, 20});
  counts.add({10, 20});
  EXPECT_EQ(counts.remove({10, 20}), Parts{});
  EXPECT_EQ(counts.remove({10, 20}), (Parts{{10, 20}}));
  EXPECT_TRUE(counts.empty());
}

TEST(UseCounts, OverlappingPartsEndEachForItself) {
  UseCounts counts;
  counts.add({10, 30});
  counts.add({20, 40});
  EXPECT_EQ(counts.remove({10, 30}), (Parts{{10, 20}}));
  EXPECT_EQ(counts.remove({20, 40}), (Parts{{20, 40}}));
}

TEST(UseCounts, APartAcrossGapsAndOtherParts) {
  UseCounts counts;
  counts.add({10, 12});
  counts.add({14, 16});
  counts.add({8, 20});
  EXPECT_EQ(counts.remove({8, 20}), (Parts{{8, 10}, {12, 14}, {16, 20}}));
  EXPECT_EQ(counts.remove({10, 12}), (Parts{{10, 12}}));
  EXPECT_EQ(counts.remove({14, 16}), (Parts{{14, 16}}));
}

TEST(UseCounts, AgreesWithACountForEachPlace) {
  constexpr std::uint64_t kBufferSlots = 64;
  std::mt19937 random(42);
  std::array<unsigned, kBufferSlots> expected{};
  UseCounts counts;
  Parts added;
  for (int step = 0; step < 5000; ++step) {
    if (added.empty() || random() % 2 == 0) {
      const std::uint64_t begin = random() % kBufferSlots;
      const PageRange part{begin, begin + 1 + random() % (kBufferSlots - begin)};
      counts.add(part);
      added.push_back(part);
      for (auto i = part.begin; i < part.end; ++i) ++expected[i];
      continue;
    }
    std::swap(added[random() % added.size()], added.back());
    const PageRange part = added.back();
    added.pop_back();
    Parts unused;
    for (auto i = part.begin; i < part.end; ++i) {
      if (--expected[i] > 0) continue;
      if (!unused.empty() && unused.back().end == i) {
        ++unused.back().end;
      } else {
        unused.push_back({i, i + 1});
      }
    }
    ASSERT_EQ(counts.remove(part), unused) << "step " << step;
  }
}

}  // namespace
}  // namespace verbatim::region

#include "base/append_only_list.h"

#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(AppendOnlyList, ReadersSeeWholeElements) {
  constexpr std::size_t kSize = 1000;
  AppendOnlyList<std::size_t, kSize> list;
  std::thread writer([&] {
    for (std::size_t i = 1; i <= kSize; ++i) list.push_back(i);
  });
  for (std::size_t size = 0; size < kSize;) {
    const auto elements = list.elements();
    size = elements.size();
    ASSERT_EQ(std::accumulate(elements.begin(), elements.end(), std::size_t{0}),
              size * (size + 1) / 2);
  }
  writer.join();
}

TEST(AppendOnlyList, ElementsStayWhereTheyAre) {
  AppendOnlyList<int, 3> list{7};
  const int& first = list[0];
  list.push_back(8);
  AppendOnlyList<int, 3> copy(list);
  copy.push_back(9);
  EXPECT_EQ(&first, &list[0]);
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(copy[2], 9);
}

}  // namespace
}  // namespace verbatim

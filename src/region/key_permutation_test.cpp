#include "region/key_permutation.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::region {
namespace {

constexpr std::uint32_t kNumbers = 1u << 24;

TEST(KeyPermutation, HitsEveryNumberOnceAndGoesBack) {
  const KeyPermutation permutation(0x0123456789abcdef);
  std::vector<bool> hit(kNumbers, false);
  for (std::uint32_t n = 0; n < kNumbers; ++n) {
    const std::uint32_t permuted = permutation.permute(n);
    ASSERT_LT(permuted, kNumbers);
    ASSERT_FALSE(hit[permuted]) << n;
    hit[permuted] = true;
    ASSERT_EQ(permutation.restore(permuted), n);
  }
}

TEST(KeyPermutation, AnotherSecretIsAnotherPermutation) {
  const KeyPermutation one(1);
  const KeyPermutation two(2);
  int equal = 0;
  for (std::uint32_t n = 0; n < 10'000; ++n) equal += one.permute(n) == two.permute(n);
  EXPECT_LT(equal, 10);  // Expected by chance: 10,000 / 2^24.
}

TEST(KeyPermutation, NeighboursLieFarApart) {
  // The distances between neighbours are spread, too: none occurs more than a few times.
  const KeyPermutation permutation(42);
  std::vector<std::uint32_t> distances(1024, 0);
  for (std::uint32_t n = 0; n < 100'000; ++n) {
    const std::uint32_t distance = permutation.permute(n + 1) - permutation.permute(n);
    ++distances[(distance & (kNumbers - 1)) >> 14];
  }
  for (const std::uint32_t count : distances) {
    EXPECT_GT(count, 40u);  // The mean is 98, the standard deviation 10.
    EXPECT_LT(count, 160u);
  }
}

}  // namespace
}  // namespace verbatim::region

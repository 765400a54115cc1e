#include "fabric/topology/bit_errors.h"

#include <limits>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

TEST(BitErrors, ThereAreNoneByDefault) {
  BitErrors none;
  BitErrors at_rate_0(0, 7);
  EXPECT_EQ(none.errors_in(1'000'000'000'000), 0u);
  EXPECT_EQ(at_rate_0.errors_in(1'000'000'000'000), 0u);
}

TEST(BitErrors, GapsLongerThanAnyNumberOfBitsHaveNone) {
  for (const double rate : {1e-25, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    BitErrors errors(rate, 3);
    EXPECT_EQ(errors.errors_in(1'000'000), 0u) << rate;
  }
}

TEST(BitErrors, AreAsManyAsTheRateSays) {
  for (const double rate : {1e-3, 1e-5, 1e-9}) {
    BitErrors errors(rate, 3);
    std::uint64_t found = 0;
    const auto bits = static_cast<std::uint64_t>(100 / rate);
    for (unsigned i = 0; i < 100; ++i) found += errors.errors_in(bits);
    EXPECT_NEAR(static_cast<double>(found), 10'000, 400) << rate;
  }
}

TEST(BitErrors, DependOnTheSeedAndNotOnThePackets) {
  const auto total = [](std::uint64_t seed, std::uint64_t packet_bits) {
    BitErrors errors(1e-4, seed);
    std::uint64_t found = 0;
    for (std::uint64_t at = 0; at < 10'000'000; at += packet_bits) {
      found += errors.errors_in(packet_bits);
    }
    return found;
  };
  EXPECT_EQ(total(1, 1000), total(1, 1000));
  EXPECT_EQ(total(1, 1000), total(1, 40'000));
  EXPECT_NE(total(1, 1000), total(2, 1000));
}

}  // namespace
}  // namespace verbatim::fabric

#include "mad/groups/agreement.h"

#include <gtest/gtest.h>

namespace verbatim::mad {
namespace {

using wire::MulticastRecord;

enum Selector : std::uint8_t { greater_than, less_than, exactly, largest };

/// An MTU of 2,048 bytes (4), 10 Gbit/s (3) and a life time of 18.
constexpr MulticastRecord kGroup{
    .qkey = 5, .mtu = 4, .pkey = 0x8001, .rate = 3, .life_time = 18, .service_level = 2};

TEST(GroupAgreement, OnlyComponentsOfTheMaskCount) {
  const MulticastRecord other{.qkey = 6, .pkey = 0x8001, .service_level = 3};
  EXPECT_TRUE(agrees(kGroup, other, 0));
  EXPECT_TRUE(agrees(kGroup, other, MulticastRecord::kPKey));
  EXPECT_FALSE(agrees(kGroup, other, MulticastRecord::kPKey | MulticastRecord::kQKey));
  EXPECT_FALSE(agrees(kGroup, other, MulticastRecord::kServiceLevel));
}

TEST(GroupAgreement, SelectorsSayWhatAValueBounds) {
  constexpr std::uint64_t kMtu = MulticastRecord::kMtu | MulticastRecord::kMtuSelector;
  const auto fits = [&](Selector selector, std::uint8_t mtu) {
    return agrees(kGroup, {.mtu_selector = selector, .mtu = mtu}, kMtu);
  };
  EXPECT_TRUE(fits(greater_than, 3));
  EXPECT_FALSE(fits(greater_than, 4));
  EXPECT_TRUE(fits(less_than, 5));
  EXPECT_FALSE(fits(less_than, 4));
  EXPECT_TRUE(fits(exactly, 4));
  EXPECT_FALSE(fits(exactly, 5));
  EXPECT_TRUE(fits(largest, 5));
  EXPECT_TRUE(agrees(kGroup, {.mtu_selector = exactly, .mtu = 5}, MulticastRecord::kMtu))
      << "without its selector, a value does not count";
}

/// The codes of rates are not in the order of rates: 5 is 5 Gbit/s, 3 is 10 Gbit/s.
TEST(GroupAgreement, RatesAreComparedAsRates) {
  constexpr std::uint64_t kRate = MulticastRecord::kRate | MulticastRecord::kRateSelector;
  EXPECT_TRUE(agrees(kGroup, {.rate_selector = greater_than, .rate = 5}, kRate));
  EXPECT_FALSE(agrees(kGroup, {.rate_selector = less_than, .rate = 5}, kRate));
}

TEST(GroupAgreement, LifeTimesAreBoundedToo) {
  constexpr std::uint64_t kLifeTime =
      MulticastRecord::kLifeTime | MulticastRecord::kLifeTimeSelector;
  EXPECT_TRUE(agrees(kGroup, {.life_time_selector = less_than, .life_time = 19}, kLifeTime));
  EXPECT_FALSE(agrees(kGroup, {.life_time_selector = less_than, .life_time = 18}, kLifeTime));
}

}  // namespace
}  // namespace verbatim::mad

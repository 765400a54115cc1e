#include "fabric/topology/link_integrity.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

constexpr std::uint8_t kThreshold = 3;

TEST(LinkIntegrity, IsLostWithMoreDamagedPacketsThanTheThreshold) {
  LinkIntegrity link;
  for (const bool again : {false, true}) {
    for (unsigned i = 0; i < kThreshold; ++i) EXPECT_FALSE(link.is_lost_with(true, kThreshold));
    EXPECT_TRUE(link.is_lost_with(true, kThreshold)) << again;
  }
}

TEST(LinkIntegrity, OfALinkThatDamagesHalfOfItsPacketsIsKept) {
  LinkIntegrity link;
  for (unsigned i = 0; i < 1000; ++i) EXPECT_FALSE(link.is_lost_with(i % 2 == 0, kThreshold));
}

TEST(LinkIntegrity, GoodPacketsAreNotSaved) {
  LinkIntegrity link;
  for (unsigned i = 0; i < 1000; ++i) EXPECT_FALSE(link.is_lost_with(false, 0));
  EXPECT_TRUE(link.is_lost_with(true, 0));
}

}  // namespace
}  // namespace verbatim::fabric

#include "ulp/sockets/urgent_mark.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::sockets {
namespace {

constexpr auto kByte = std::byte{'!'};

TEST(UrgentMark, ByteIsBesideTheStream) {
  UrgentMark mark;
  mark.arrive(3, kByte);
  EXPECT_TRUE(mark.is_waiting());
  EXPECT_FALSE(mark.is_here());
  EXPECT_EQ(mark.bytes_before(), 2u);
  EXPECT_EQ(mark.bytes_to_read(), 2u);
  mark.read(2);
  EXPECT_TRUE(mark.is_here());
  EXPECT_EQ(mark.hole(), 1u);
  EXPECT_EQ(mark.bytes_to_read(), 0u);
  EXPECT_EQ(mark.take(true), kByte);
  EXPECT_EQ(mark.take(false), kByte);
  EXPECT_EQ(mark.take(false), std::nullopt);
  EXPECT_FALSE(mark.is_waiting());
  EXPECT_TRUE(mark.is_here());
  mark.arrive(5, std::nullopt);
  mark.read(mark.hole());
  EXPECT_FALSE(mark.is_here());
  EXPECT_EQ(mark.bytes_to_read(), 5u);
}

TEST(UrgentMark, ByteIsLostBehindTheMark) {
  UrgentMark mark;
  mark.arrive(1, kByte);
  mark.arrive(1, std::nullopt);
  mark.read(mark.hole());
  mark.read(1);
  EXPECT_EQ(mark.take(false), std::nullopt);
}

TEST(UrgentMark, InlineByteIsOneOfTheStream) {
  UrgentMark mark;
  mark.set_inline(true);
  mark.arrive(3, kByte);
  EXPECT_TRUE(mark.is_waiting());
  EXPECT_EQ(mark.take(false), std::nullopt);
  EXPECT_EQ(mark.bytes_to_read(), 3u);
  mark.read(2);
  EXPECT_TRUE(mark.is_here());
  EXPECT_EQ(mark.hole(), 0u);
  mark.read(1);
  EXPECT_FALSE(mark.is_waiting());
}

TEST(UrgentMark, LaterMarkMakesTheEarlierByteOrdinary) {
  UrgentMark mark;
  mark.arrive(3, kByte);
  mark.arrive(2, std::byte{'?'});
  EXPECT_EQ(mark.bytes_before(), 4u);
  EXPECT_EQ(mark.take(false), std::byte{'?'});
}

}  // namespace
}  // namespace verbatim::ulp::sockets

#include "cli/text/quantity.h"

#include <gtest/gtest.h>

namespace verbatim::cli {
namespace {

TEST(Quantity, CountsHaveANounAndCommas) {
  EXPECT_EQ(counted(0, "packet"), "0 packets");
  EXPECT_EQ(counted(1, "packet"), "1 packet");
  EXPECT_EQ(counted(999, "packet"), "999 packets");
  EXPECT_EQ(counted(1'234'567, "packet"), "1,234,567 packets");
}

TEST(Quantity, BytesHaveTheUnitThatFits) {
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1'000), "1.0 kB");
  EXPECT_EQ(bytes_text(999'999), "1.0 MB");
  EXPECT_EQ(bytes_text(8'312'000'000), "8.3 GB");
}

TEST(Quantity, ADurationIsANumberAndAUnit) {
  EXPECT_EQ(parse_duration("500ms").value(), 500 * kMillisecond);
  EXPECT_EQ(parse_duration("10s").value(), 10 * kSecond);
  EXPECT_EQ(parse_duration("4294967295h").value(), 4'294'967'295ull * 3600 * kSecond);
  for (const char* text : {"", "10", "s", "0s", "-1s", "1.5s", "10 s", "5000000000s", "10days"}) {
    EXPECT_EQ(parse_duration(text).error().code, EINVAL) << text;
  }
}

}  // namespace
}  // namespace verbatim::cli

#include "ulp/target/disks.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::target {
namespace {

TEST(Disks, Sizes) {
  const struct {
    const char* text;
    std::uint64_t bytes;
  } rows[] = {{"4096", 4096},
              {"64M", 64u << 20},
              {"1g", 1u << 30},
              {"2T", std::uint64_t{2} << 40},
              {"512", 512},
              {"1K", 1024},
              {"4194304T", std::uint64_t{1} << 62}};
  for (const auto& row : rows) EXPECT_EQ(parse_bytes(row.text).value_or(0), row.bytes) << row.text;
  for (const char* const text :
       {"", "0", "M", "-1", "64MB", "64X", "1 M", "4194305T", "1e3", "99999999999999999999"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_NE(bytes.error().text.find("is no size: write one as 64M or 1G"), std::string::npos);
  }
}

TEST(Disks, Places) {
  const struct {
    const char* text;
    const char* place;
  } rows[] = {{"10.0.0.1", "10.0.0.1:4420"},
              {"10.0.0.1:5", "10.0.0.1:5"},
              {"::", "[::]:4420"},
              {"[fd00::1]:7", "[fd00::1]:7"}};
  for (const auto& row : rows) {
    const auto place = parse_place(row.text, 4420);
    ASSERT_TRUE(place) << row.text;
    EXPECT_EQ(place->text(), row.place);
  }
  for (const char* const text : {"", "host", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
                                 "10.0.0.1:x", "10.0.0.1.2:5", "[fd00::1:7"})
    EXPECT_FALSE(parse_place(text, 4420)) << text;
}

}  // namespace
}  // namespace verbatim::ulp::target

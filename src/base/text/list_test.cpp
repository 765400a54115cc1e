#include "base/text/list.h"

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(List, CommasSeparateWordsAndEmptyOnesAreNone) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(split(""), Words());
  EXPECT_EQ(split("a"), Words({"a"}));
  EXPECT_EQ(split(",a,,b,"), Words({"a", "b"}));
}

}  // namespace
}  // namespace verbatim

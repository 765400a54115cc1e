#include "base/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return refuse(EINVAL, "odd");
  return value / 2;
}

TEST(Error, CarriesCodeAndCause) {
  EXPECT_EQ(half(4), 2);
  const auto refused = half(3);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().text, "odd");
}

}  // namespace
}  // namespace verbatim

#include "base/text/nearest.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(Nearest, IsFoundAmongNames) {
  const std::vector<std::string> names{"run", "env", "devices", "status", "doctor"};
  EXPECT_EQ(nearest("stauts", names), "status");
  EXPECT_EQ(nearest("Doktor", names), "doctor");
  EXPECT_EQ(nearest("device", names), "devices");
  EXPECT_EQ(nearest("rnu", names), "");  // Two of three letters differ.
  EXPECT_EQ(nearest("ruun", names), "run");
  EXPECT_EQ(nearest("nonsense", names), "");
  EXPECT_EQ(nearest("", names), "");
}

}  // namespace
}  // namespace verbatim

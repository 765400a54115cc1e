#include "base/inplace_text.h"

#include <cstring>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

TEST(InplaceText, HoldsWhatFits) {
  const InplaceText<4> text("name");
  EXPECT_EQ(text.view(), "name");
  EXPECT_EQ(InplaceText<4>("names").view(), "name");
  EXPECT_EQ(fmt::format("{:>5}", text), " name");
  EXPECT_TRUE(text == "name");
  EXPECT_FALSE(text == InplaceText<4>("nam"));
  EXPECT_TRUE(InplaceText<4>().empty());
}

TEST(InplaceText, ForeignBytesAreText) {
  InplaceText<3> text;
  std::memcpy(static_cast<void*>(&text), "ab\x80!", sizeof text);  // No zero.
  text.make_printable();
  EXPECT_EQ(text.view(), "ab?!");
  std::memcpy(static_cast<void*>(&text), "a\0b", sizeof text);
  EXPECT_EQ(text.view(), "a");
}

}  // namespace
}  // namespace verbatim

#include "cli/text/wrap.h"

#include <gtest/gtest.h>

namespace verbatim::cli {
namespace {

TEST(Wrap, LinesAreBrokenAtBlanks) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 13), "one two three");
  EXPECT_EQ(wrapped("a-long-word b", 4), "a-long-word\nb");
  EXPECT_EQ(wrapped("", 7), "");
}

TEST(Wrap, LinesOfAParagraphAreFilled) {
  EXPECT_EQ(wrapped("one\ntwo three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one\n\ntwo", 80), "one\n\ntwo");
}

TEST(Wrap, IndentedLinesStay) {
  EXPECT_EQ(wrapped("Examples:\n  verbatim run -- it\n  verbatim status\nThen more", 12),
            "Examples:\n  verbatim run -- it\n  verbatim status\nThen more");
}

}  // namespace
}  // namespace verbatim::cli

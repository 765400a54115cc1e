#include "cli/text/table.h"

#include <gtest/gtest.h>

namespace verbatim::cli {
namespace {

TEST(Table, ColumnsAreAlignedAndNumbersStandRight) {
  Table table({"node", "packets", "state"});
  table.add({"a", "7", "active"});
  table.add({"storage", "1200", "x"});
  EXPECT_EQ(table.text(),
            "node     packets  state\n"
            "a              7  active\n"
            "storage     1200  x\n");
}

TEST(Table, IndentsAndLeavesNoTrailingSpace) {
  Table table({"name", "note"});
  table.add({"a", ""});
  EXPECT_EQ(table.text(2), "  name  note\n  a\n");
}

}  // namespace
}  // namespace verbatim::cli

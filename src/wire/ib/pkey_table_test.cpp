#include "wire/ib/pkey_table.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::wire {
namespace {

TEST(PKeyTable, EntryThatLetsAPacketIn) {
  struct Row {
    std::vector<std::uint16_t> table;
    std::uint16_t sent;
    std::optional<std::size_t> entry;
  };
  const std::vector<Row> rows{
      {{0xffff}, 0xffff, 0},
      {{0xffff}, 0x7fff, 0},
      {{0x7fff}, 0xffff, 0},
      {{0x7fff}, 0x7fff, {}},
      {{0x7fff, 0xffff}, 0x7fff, 1},
      {{0x7fff, 0xffff}, 0xffff, 1},
      {{0, 0x8001}, 0x0001, 1},
      {{0, 0x8000}, 0x8000, {}},
      {{0xffff, 0x8001}, 0x8002, {}},
      {{0x0001, 0}, 0x8001, 0},
      {{}, 0xffff, {}},
  };
  for (const auto& [table, sent, entry] : rows) {
    EXPECT_EQ(matching_entry(table, PKey{sent}), entry) << sent;
  }
}

}  // namespace
}  // namespace verbatim::wire

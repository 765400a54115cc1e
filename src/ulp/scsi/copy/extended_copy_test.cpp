#include <gtest/gtest.h>

#include "ulp/scsi/task_bench_for_test.h"

namespace verbatim::ulp::scsi {
namespace {

/// Identification descriptor: the NAA name of a unit without a serial number.
const std::string kTarget =
    "e4000000 01030010 60014050" + std::string(24, '0') + "00000000 00000200";
const std::string kStranger =
    "e4000000 01030010 60014051" + std::string(24, '0') + "00000000 00000200";

std::string segment(unsigned from, unsigned to, unsigned blocks, unsigned source, unsigned target) {
  return fmt::format("02000018{:04x}{:04x}0000{:04x}{:016x}{:016x}", from, to, blocks, source,
                     target);
}
std::string list(unsigned targets, const std::string& descriptors) {
  const std::size_t bytes = bytes_of_hex(descriptors).size() - 32 * targets;
  return fmt::format("0100{:04x}00000000{:08x}00000000", 32 * targets, bytes) + descriptors;
}

class CopyTest : public testing::Test {
 protected:
  /// What comes of an EXTENDED COPY with these parameters.
  std::string copy(const std::string& parameters) {
    const auto bytes = static_cast<std::uint32_t>(bytes_of_hex(parameters).size());
    const auto cdb = fmt::format("83000000000000000000{:08x}0000", bytes);
    EXPECT_EQ(b.out(cdb, bytes), fmt::format("fetch {} from 0", bytes));
    std::string said = b.fetched(parameters);
    if (said.starts_with("respond")) b.done();
    return said;
  }
  TaskTarget target;
  TaskBench b{target};
};

TEST_F(CopyTest, CopiesInPieces) {
  std::fill_n(b.disk.begin(), 17 * 512, std::byte{7});
  EXPECT_EQ(copy(list(1, kTarget + segment(0, 0, 17, 0, 100))), "borrow +0 8192");
  EXPECT_EQ(b.pages(), "give back, put +51200 8192");
  EXPECT_EQ(b.stored(), "borrow +8192 512");
  EXPECT_EQ(b.pages(), "give back, put +59392 512");
  EXPECT_EQ(b.stored(), "respond 1 00");
  EXPECT_EQ(b.disk[51200 + 17 * 512 - 1], std::byte{7});
  EXPECT_EQ(b.disk[51200 + 17 * 512], std::byte{0});
}

TEST_F(CopyTest, AFailureOfEitherDiskIsTold) {
  EXPECT_EQ(copy(list(1, kTarget + segment(0, 0, 1, 0, 100))), "borrow +0 512");
  EXPECT_EQ(b.pages(storage::StoreStatus::medium_error), "respond 1 02 a/0d01");
  b.done();
  EXPECT_EQ(copy(list(1, kTarget + segment(0, 0, 1, 0, 100))), "borrow +0 512");
  EXPECT_EQ(b.pages(), "give back, put +51200 512");
  EXPECT_EQ(b.stored(storage::StoreStatus::no_space), "respond 1 02 7/2707");
}

TEST_F(CopyTest, WhatIsWrongIsRefused) {
  const std::string good = segment(0, 0, 1, 0, 100);
  const struct {
    std::string parameters;
    const char* answer;
  } rows[] = {
      {list(1, kTarget + segment(0, 1, 1, 0, 0)), "respond 1 02 a/0d02"},
      {list(1, kTarget + segment(0, 0, 1, 1000, 0)), "respond 1 02 a/0d02"},
      {list(1, kTarget + segment(0, 0, 2, 0, 999)), "respond 1 02 a/0d02"},
      {list(1, kStranger + good), "respond 1 02 a/0d02"},
      {list(1, "e0" + kTarget.substr(2) + good), "respond 1 02 5/2607"},
      {list(1, kTarget + "03" + good.substr(2)), "respond 1 02 5/2609"},
      {list(3, kTarget + kTarget + kTarget + good), "respond 1 02 5/2606"},
      {list(1, kTarget + good + good), "respond 1 02 5/2608"},
      {list(1, kTarget + good).substr(0, 2 * 50), "respond 1 02 5/1a00"},
      {list(1, kTarget + segment(0, 0, 0, 0, 0)), "respond 1 00"},
      {list(1, kTarget), "respond 1 00"},
  };
  for (const auto& row : rows) EXPECT_EQ(copy(row.parameters), row.answer) << row.parameters;
}

TEST_F(CopyTest, AReservationOfAnotherHolds) {
  target.unit.on_login(NexusId{1}, {.name = "other"});
  target.unit.reservations().reserve(target.unit.nexus_of(NexusId{1}));
  EXPECT_EQ(b.out("83000000000000000000000000500000", 80), "respond 1 18");
}

TEST_F(CopyTest, LimitsAreThoseOfLinux) {
  EXPECT_EQ(b.in("84030000000000000000000001000000", 256), "deliver 46, respond 1 00, in -210");
}

}  // namespace
}  // namespace verbatim::ulp::scsi

#include "ulp/scsi/task_set.h"

#include <gtest/gtest.h>

#include "ulp/scsi/task_bench_for_test.h"

/// Each line is one input, and what comes of it.
namespace verbatim::ulp::scsi {
namespace {

using storage::StoreStatus;

constexpr std::string_view kInquiry = "120000002400";

std::string block(char digit) { return std::string(1024, digit); }

TEST(ScsiTasks, ReadDeliversLentPages) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.in("28000000000800000200", 1024), "borrow +4096 1024");
  EXPECT_EQ(b.pages(), "deliver 1024, respond 1 00");
  EXPECT_EQ(b.done(), "give back");
  EXPECT_EQ(b.in("28000000000800000200", 512), "borrow +4096 512");
  EXPECT_EQ(b.pages(), "deliver 512, respond 1 00, in +512");
  EXPECT_EQ(b.done(), "give back");
  EXPECT_EQ(b.in("28000000000800000200", 1024), "borrow +4096 1024");
  EXPECT_EQ(b.pages(StoreStatus::medium_error), "respond 1 02 3/1100");
  EXPECT_EQ(b.done(), "");
  EXPECT_EQ(b.tasks().size(), 0u);
}

TEST(ScsiTasks, WriteIsFetchedBeforeItIsPut) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.out("2a000000000800000100", 512), "borrow +4096 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(block('5')), "put +4096 512");
  EXPECT_EQ(b.stored(), "respond 1 00");
  EXPECT_EQ(b.disk[4096], std::byte{0x55});
  EXPECT_EQ(b.done(), "");
  EXPECT_EQ(b.out("2a000000000800000100", 512), "borrow +4096 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(), "put +4096 512");
  EXPECT_EQ(b.stored(StoreStatus::no_space), "respond 1 02 7/2707");
  b.done();
  EXPECT_EQ(b.out("2a000000000800000100", 512), "borrow +4096 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");
  EXPECT_EQ(b.fetched("", false), "give back, respond 1 02 b/4b00");
}

TEST(ScsiTasks, WriteAndVerifyReadsWhatIsStable) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.out("2e000000000000000100", 512), "borrow +0 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(), "put +0 512 stable");
  EXPECT_EQ(b.stored(), "borrow +0 512");
  EXPECT_EQ(b.pages(), "give back, respond 1 00");
}

TEST(ScsiTasks, ReportsComeFromAPieceOfMemory) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.in(kInquiry, 36, 1), "deliver 36, respond 1 00");
  const Tag first = b.tag;
  EXPECT_EQ(b.in(kInquiry, 36, 2), "");                 // There is one piece: this one waits,
  EXPECT_EQ(b.in("28000000000000000100", 512, 3), "");  // and what comes behind it.
  EXPECT_EQ(b.done(first), "borrow +0 512, deliver 36, respond 2 00");
}

TEST(ScsiTasks, VerifyComparesPieceByPiece) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.out("2f020000000000001100", 17 * 512), "fetch 8192 from 0");
  EXPECT_EQ(b.fetched(), "borrow +0 8192");
  EXPECT_EQ(b.pages(), "give back, fetch 512 from 8192");
  EXPECT_EQ(b.fetched(block('0')), "borrow +8192 512");
  EXPECT_EQ(b.pages(), "give back, respond 1 00");
  b.done();
  EXPECT_EQ(b.out("2f020000000000001100", 17 * 512), "fetch 8192 from 0");
  EXPECT_EQ(b.fetched(), "borrow +0 8192");
  EXPECT_EQ(b.pages(), "give back, fetch 512 from 8192");
  EXPECT_EQ(b.fetched("0000aa"), "borrow +8192 512");
  EXPECT_EQ(b.pages(), "give back, respond 1 02 e/1d00 i8194");
  b.done();
  EXPECT_EQ(b.out("2f000000000000001100", 0), "borrow +0 8704");
  EXPECT_EQ(b.pages(), "give back, respond 1 00");
}

TEST(ScsiTasks, CompareAndWriteWritesTheSecondHalf) {
  TaskTarget target;
  TaskBench b(target);
  const std::string caw = "89000000000000000003000000010000";
  EXPECT_EQ(b.out(caw, 1024), "fetch 1024 from 0");
  EXPECT_EQ(b.fetched(block('0') + block('7')), "borrow +1536 512");
  EXPECT_EQ(b.pages(), "give back, put +1536 512");
  EXPECT_EQ(b.stored(), "respond 1 00");
  EXPECT_EQ(b.disk[1536 + 511], std::byte{0x77});
  b.done();
  EXPECT_EQ(b.out(caw, 1024), "fetch 1024 from 0");
  EXPECT_EQ(b.fetched(block('7').substr(0, 1022) + "00" + block('8')), "borrow +1536 512");
  EXPECT_EQ(b.pages(), "give back, respond 1 02 e/1d00 i511");
  EXPECT_EQ(b.disk[1536], std::byte{0x77});
}

TEST(ScsiTasks, ALockedRangeIsBusyForOthers) {
  TaskTarget target;
  TaskBench a(target), b(target, NexusId{1});
  const std::string caw = "89000000000000000003000000010000";
  EXPECT_EQ(a.out(caw, 1024), "fetch 1024 from 0");
  EXPECT_EQ(b.out(caw, 1024), "fetch 1024 from 0");
  EXPECT_EQ(a.fetched(), "borrow +1536 512");
  EXPECT_EQ(b.fetched(), "respond 1 08");
  EXPECT_EQ(b.done(), "");
  EXPECT_EQ(b.out("2a000000000300000100", 512), "respond 1 08");
  EXPECT_EQ(b.done(), "");
  EXPECT_EQ(b.out("2a000000000400000100", 512), "borrow +2048 512 to write");
  EXPECT_EQ(a.pages(StoreStatus::medium_error), "respond 1 02 3/0c00");
  EXPECT_TRUE(target.unit.lock({1536, 512}));
}

TEST(ScsiTasks, UnmapClearsRangeByRange) {
  TaskTarget target;
  TaskBench b(target);
  const std::string ranges =
      "0036003000000000"
      "0000000000000001"
      "00000002"
      "00000000"
      "0000000000000009"
      "00000000"
      "00000000"
      "0000000000000005"
      "00000001"
      "00000000";
  EXPECT_EQ(b.out("42000000000000003800", 56), "fetch 56 from 0");
  EXPECT_EQ(b.fetched(ranges), "unmap +512 1024");
  EXPECT_EQ(b.stored(), "unmap +2560 512");  // A range of no blocks is passed over.
  EXPECT_EQ(b.stored(), "respond 1 00");
  b.done();
  EXPECT_EQ(b.out("42000000000000003800", 56), "fetch 56 from 0");
  EXPECT_EQ(b.fetched(ranges), "unmap +512 1024");
  EXPECT_EQ(b.stored(StoreStatus::medium_error), "respond 1 02 3/0c00");
}

TEST(ScsiTasks, WriteSameRepeatsItsBlock) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.out("41000000000100008100", 512), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(block('3')), "borrow +512 65536 to write");
  EXPECT_EQ(b.pages(), "put +512 65536");
  EXPECT_EQ(b.stored(), "borrow +66048 512 to write");
  EXPECT_EQ(b.pages(), "put +66048 512");
  EXPECT_EQ(b.stored(), "respond 1 00");
  EXPECT_EQ(b.disk[511], std::byte{0});
  EXPECT_EQ(b.disk[512], std::byte{0x33});
  EXPECT_EQ(b.disk[66048 + 511], std::byte{0x33});
  EXPECT_EQ(b.disk[66048 + 512], std::byte{0});
  b.done();
  EXPECT_EQ(b.out("41000000000100008100", 512), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(block('0')), "zero +512 66048");
  EXPECT_EQ(b.stored(), "respond 1 00");
  b.done();
  EXPECT_EQ(b.out("41080000000100008100", 512), "fetch 512 from 0");
  EXPECT_EQ(b.fetched(block('0')), "unmap +512 66048");
}

TEST(ScsiTasks, FlushAndRefusalsNeedNoMemory) {
  TaskTarget target;
  TaskBench b(target);
  EXPECT_EQ(b.out("35000000000000000000", 0), "flush");
  EXPECT_EQ(b.stored(), "respond 1 00");
  EXPECT_EQ(b.out("5f080000000000001800", 24), "respond 1 02 5/2400");
  EXPECT_EQ(b.begin("000000000000", 0, 0, 1, TaskAttribute::simple, Lun{5} << 48),
            "respond 1 02 5/2500");
}

TEST(ScsiTasks, MoreThanItsTasksAreRefused) {
  TaskTarget target;
  TaskBench b(target, NexusId{0}, 2);
  EXPECT_EQ(b.in("28000000000000000100", 512, 1), "borrow +0 512");
  EXPECT_EQ(b.in("28000000000000000100", 512, 2), "borrow +0 512");
  EXPECT_EQ(b.in("28000000000000000100", 512, 3), "full");
}

TEST(ScsiTasks, AnOrderedTaskIsBetweenThoseBeforeAndBehindIt) {
  TaskTarget target;
  TaskBench b(target);
  const std::string read = "28000000000000000100";
  EXPECT_EQ(b.in(read, 512, 1), "borrow +0 512");
  const Tag first = b.tag;
  EXPECT_EQ(b.begin(read, 0, 512, 2, TaskAttribute::ordered), "");
  EXPECT_EQ(b.in(read, 512, 3), "");
  EXPECT_EQ(b.begin(read, 0, 512, 4, TaskAttribute::head_of_queue), "borrow +0 512");
  const Tag head = b.tag;
  EXPECT_EQ(b.pages(first), "deliver 512, respond 1 00");
  EXPECT_EQ(b.pages(head), "borrow +0 512, deliver 512, respond 4 00");  // And request 2 begins.
  EXPECT_EQ(b.done(first), "give back");
  EXPECT_EQ(b.done(head), "give back");
}

TEST(ScsiTasks, AnAbortedTaskEndsAtItsNextStep) {
  TaskTarget target;
  TaskBench b(target);
  const std::string write = "2a000000000000000100";
  EXPECT_EQ(b.manage(Management::abort_task, 1), "managed no task");
  EXPECT_EQ(b.manage(Management::unit_reset, 0, Lun{5} << 48), "managed no unit");
  EXPECT_EQ(b.out(write, 512), "borrow +0 512 to write");  // The store has it,
  EXPECT_EQ(b.manage(Management::abort_task, 1), "");
  EXPECT_EQ(b.pages(), "give back, drop 1, managed complete");
  EXPECT_EQ(b.out(write, 512), "borrow +0 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");  // or its data is on its way,
  EXPECT_EQ(b.manage(Management::abort_task, 1), "cancel");
  EXPECT_EQ(b.fetched("", false), "give back, drop 1, managed complete");
  EXPECT_EQ(b.in(kInquiry, 36, 1), "deliver 36, respond 1 00");
  const Tag first = b.tag;
  EXPECT_EQ(b.in(kInquiry, 36, 2), "");  // or it waits,
  EXPECT_EQ(b.manage(Management::abort_task, 2), "drop 2, managed complete");
  EXPECT_EQ(b.manage(Management::abort_task, 1), "managed no task");  // or it was answered.
  EXPECT_EQ(b.done(first), "");
  EXPECT_EQ(b.tasks().size(), 0u);
}

TEST(ScsiTasks, AResetEndsTheTasksOfAllInitiators) {
  TaskTarget target;
  TaskBench a(target), b(target, NexusId{1});
  EXPECT_EQ(a.in("28000000000000000100", 512, 1), "borrow +0 512");
  EXPECT_EQ(b.out("2a000000000000000100", 512, 2), "borrow +0 512 to write");
  EXPECT_EQ(b.pages(), "fetch 512 from 0");
  EXPECT_EQ(a.manage(Management::unit_reset), "");
  EXPECT_EQ(a.pages(), "give back, drop 1");  // The other's task may still change the unit.
  EXPECT_EQ(a.tasks().deadline(), 1'000'000);
  EXPECT_EQ(a.time(1'000'000), "");
  EXPECT_EQ(b.fetched(), "give back, respond 2 40");  // TASK ABORTED.
  EXPECT_EQ(a.time(2'000'000), "managed complete");
  EXPECT_EQ(a.tasks().deadline(), kNever);
  EXPECT_EQ(a.out("000000000000", 0), "respond 1 02 6/2903");
  EXPECT_EQ(b.done(), "");
  EXPECT_EQ(b.out("000000000000", 0), "respond 1 02 6/2903");
}

TEST(ScsiTasks, WhatIsLentComesBackWhenTheConnectionEnds) {
  TaskTarget target;
  TaskBench b(target);
  b.in("28000000000000000100", 512, 1);
  b.pages();  // Delivered, not yet done.
  b.out("2a000000000000000100", 512, 2);
  b.pages();                              // Its data is on its way.
  b.out("2a000000000000000100", 512, 3);  // And this one waits for its pages.
  const Tag third = b.tag;
  EXPECT_EQ(b.end(), "give back, give back");
  EXPECT_FALSE(b.tasks().is_idle());
  EXPECT_EQ(b.pages(third), "give back");
  EXPECT_TRUE(b.tasks().is_idle());
  EXPECT_EQ(target.unit.condemned(), 0u);
  EXPECT_EQ(b.fetched(third), "");  // Answers to what is over find nothing.
  EXPECT_EQ(b.stored(third), "");
}

}  // namespace
}  // namespace verbatim::ulp::scsi

#include "ulp/scsi/logical_unit.h"

#include <gtest/gtest.h>

#include "ulp/scsi/unit_bench_for_test.h"

/// What each command is answered: a line an input.
namespace verbatim::ulp::scsi {
namespace {

struct Line {
  const char* cdb;
  std::uint32_t out, in;
  const char* answer;
};

TEST(ScsiUnit, ReadsAndWritesAreCutToWhatBothSidesSay) {
  UnitBench b(with_all());
  const Line lines[] = {
      {"080000010200", 0, 1024, "read +512 1024"},
      {"28000000000a00000200", 0, 1024, "read +5120 1024"},
      {"28000000000a00000200", 0, 4096, "read +5120 1024, in -3072"},
      {"28000000000a00000200", 0, 700, "read +5120 700, in +324"},
      {"28000000000a00000200", 0, 0, "good, in +1024"},
      {"28000000000a00000200", 1024, 0, "good, out -1024, in +1024"},
      {"28000000000a00000000", 0, 0, "good"},
      {"2a000000000a00000100", 512, 0, "write +5120 512"},
      {"2a080000000a00000100", 512, 0, "write +5120 512 stable"},
      {"2a100000000a00000100", 512, 0, "write +5120 512"},
      {"2a000000000000000100", 0, 0, "good, out +512"},
      {"2a000000000000000100", 10000, 0, "write +0 512, out -9488"},
      {"2a000000000000000100", 200, 0, "check 5/0e03, out +312"},
      {"2a000000000000000200", 512, 0, "write +0 512, out +512"},
      {"aa0000000001000000040000", 2048, 0, "write +512 2048"},
      {"8a080000000000000001000000010000", 512, 0, "write +512 512 stable"},
      {"2e000000000000000100", 512, 0, "write +0 512 stable verify"},
      {"2f000000000000000400", 0, 0, "verify +0 2048"},
      {"2f020000000000000400", 2048, 0, "verify +0 2048 compare"},
      {"2f060000000000000400", 512, 0, "check 5/2400 @1.2"},
      {"35000000000000000000", 0, 0, "flush"},
      {"91000000000000000000000000000000", 0, 0, "flush"},
  };
  for (const Line& line : lines) {
    const std::string answer = line.in > 0 ? b.in(line.cdb, line.in) : b.out(line.cdb, line.out);
    EXPECT_EQ(answer, line.answer) << line.cdb << " out " << line.out << " in " << line.in;
  }
}

TEST(ScsiUnit, RefusalsNameTheirField) {
  UnitBench b(with_all());
  const Line lines[] = {
      {"280000000 3e8 00000100", 0, 512, "check 5/2100"},  // The block after the last.
      {"280000000 3e8 00000000", 0, 0, "good"},            // None of them.
      {"280000000 3e9 00000000", 0, 0, "check 5/2100"},
      {"2800ffffffff00000100", 0, 512, "check 5/2100"},
      {"8800ffffffffffffffff000000010000", 0, 512, "check 5/2100"},
      {"8800 0000000000000001 ffffffff 0000", 0, 512, "check 5/2100"},
      {"28000000000000008100", 0, 0, "check 5/2400 @7.7"},  // 129 blocks: 128 at most.
      {"8800 0000000000000000 00000081 0000", 0, 0, "check 5/2400 @10.7"},
      {"28200000000000000100", 0, 512, "check 5/2400 @1.7"},  // Protection.
      {"2a200000000000000100", 512, 0, "check 5/2400 @1.7"},
      {"2f200000000000000100", 0, 0, "check 5/2400 @1.7"},
      {"1b0000000000", 0, 0, "check 5/2400 @4.0"},  // Stop.
      {"1b0000000100", 0, 0, "good"},
      {"1b0000000300", 0, 0, "check 5/2400 @4.1"},
      {"1b0000003100", 0, 0, "check 5/2400 @4.7"},
      {"5e040000000000001000", 0, 16, "check 5/2400 @1.4"},              // PERSISTENT RESERVE IN.
      {"83010000000000000000000000180000", 24, 0, "check 5/2400 @1.4"},  // EXTENDED COPY (LID4).
  };
  for (const Line& line : lines) {
    const std::string answer = line.in > 0 ? b.in(line.cdb, line.in) : b.out(line.cdb, line.out);
    EXPECT_EQ(answer, line.answer) << line.cdb;
  }
  UnitBench plain(captured());  // Without a write cache there are no DPO and FUA.
  EXPECT_EQ(plain.out("2a080000000000000100", 512), "check 5/2400 @1.3");
  EXPECT_EQ(plain.in("28100000000000000100", 512), "check 5/2400 @1.4");
  EXPECT_EQ(plain.out("42000000000000001800", 24), "check 5/2000");  // UNMAP.
}

TEST(ScsiUnit, NothingIsWrittenToAReadOnlyUnit) {
  UnitSettings settings = with_all();
  settings.is_read_only = true;
  UnitBench b(settings);
  for (const char* cdb :
       {"0a0000010100", "2a000000000000000100", "2e000000000000000100", "41000000000000000100",
        "42000000000000001800", "89000000000000000000000000010000"})
    EXPECT_EQ(b.out(cdb, 1024), "check 7/2700") << cdb;
  EXPECT_EQ(b.data("1a080800ff00").substr(4, 2), "90");  // WP, DPOFUA.
}

TEST(ScsiUnit, WriteSameAndUnmapTakeWhatTheirLimitsSay) {
  UnitBench b(with_all());
  const Line lines[] = {
      {"41000000000100000200", 512, 0, "repeat 512 +512 1024"},
      {"41080000000100000200", 512, 0, "repeat 512 +512 1024 unmap"},
      {"93 01 0000000000000001 00000002 0000", 0, 0, "zero +512 1024"},  // NDOB.
      {"93 09 0000000000000001 00000002 0000", 0, 0, "unmap +512 1024"},
      {"93 00 0000000000000001 00000002 0000", 0, 0, "check 5/0e03, out +512"},
      {"41000000000100000000", 512, 0, "check 5/2400 @7.7"},  // WSNZ.
      {"41000000000000004100", 512, 0, "check 5/2400 @7.7"},  // 65 blocks.
      {"41100000000100000200", 512, 0, "check 5/2400 @1.4"},  // Anchor.
      {"41020000000100000200", 512, 0, "check 5/2400 @1.2"},
      {"41000000 03e7 00000200", 512, 0, "check 5/2100"},
      {"42000000000000001800", 24, 0, "parameters 24"},
      {"42010000000000001800", 24, 0, "check 5/2400 @1.0"},
      {"42000000000000001800", 8, 0, "check 5/2400 @7.7"},
      {"42000000000000000000", 0, 0, "good"},
      {"89 00 0000000000000003 000000 01 00 00", 1024, 0, "compare and write +1536 512"},
      {"89 08 0000000000000003 000000 01 00 00", 1024, 0, "compare and write +1536 512 stable"},
      {"89 00 0000000000000003 000000 00 00 00", 0, 0, "good"},
      {"89 00 0000000000000003 000000 02 00 00", 2048, 0, "check 5/2400 @13.7"},
      {"89 00 0000000000000003 000000 01 00 00", 512, 0, "check 5/2400 @13.7, out +512"},
      {"89 00 0000000000000003 000000 01 00 00", 2048, 0, "check 5/2400 @13.7, out -1024"},
      {"41000000000100000200", 1024, 0, "check 5/0e03, out -512"},
  };
  for (const Line& line : lines) EXPECT_EQ(b.out(line.cdb, line.out), line.answer) << line.cdb;

  const std::string unmap = "42000000000000003800", one =
                                                        "0000000000000001"
                                                        "00000002"
                                                        "00000000";
  EXPECT_EQ(b.parameters("42000000000000001800", "0016001000000000" + one), "unmap +512 1024");
  EXPECT_EQ(b.parameters(unmap, "0036003000000000" + one + one + one),
            "unmap +512 1024 +512 1024 +512 1024");
  EXPECT_EQ(b.parameters("42000000000000004800", "0046004000000000" + one + one + one + one),
            "check 5/2600 p2");  // 4 ranges.
  EXPECT_EQ(b.parameters("42000000000000001800",
                         "0016001000000000"
                         "0000000000000001"
                         "00000065"
                         "00000000"),
            "check 5/2600 p16");  // 101 blocks.
  EXPECT_EQ(b.parameters("42000000000000001800",
                         "0016001000000000"
                         "00000000000003e7"
                         "00000002"
                         "00000000"),
            "check 5/2100");
  EXPECT_EQ(b.parameters("42000000000000000400", "00000000"), "check 5/1a00");
  EXPECT_EQ(b.parameters("42000000000000000800", "0006000000000000"), "good");
}

TEST(ScsiUnit, AttentionsAreToldOnceToEachInitiator) {
  UnitBench b(captured());
  b.unit.set_blocks(1000);
  EXPECT_EQ(b.in("120000002400", 36), "good 36");              // INQUIRY passes,
  EXPECT_EQ(b.in("a00000000000000000200000", 24), "good 24");  // and REPORT LUNS.
  EXPECT_EQ(b.in("28000000000000000100", 512), "check 6/2a09");
  EXPECT_EQ(b.in("28000000000000000100", 512), "read +0 512");
  // REQUEST SENSE takes it, too.
  const auto sense = [&] { return b.in("030000001200", 18, NexusId{1}); };
  b.unit.reset(NexusId{0});
  EXPECT_EQ(sense(), "good 18");
  EXPECT_EQ(b.in("000000000000", 0, NexusId{1}), "check 6/2a09");
  EXPECT_EQ(b.in("000000000000", 0, NexusId{1}), "good");
  EXPECT_EQ(b.in("000000000000", 0), "check 6/2903");
  EXPECT_EQ(b.data("030000001200"),
            "700000000000000a000000000000"
            "00000000");
  EXPECT_EQ(b.data("030100001200"), "7200000000000000");
  b.unit.clear_tasks(NexusId{0});
  EXPECT_EQ(b.in("000000000000", 0), "good");
  EXPECT_EQ(b.in("000000000000", 0, NexusId{1}), "check 6/2f00");
  b.unit.attentions().tell_all(Attention::luns_changed);
  EXPECT_EQ(b.in("a00000000000000000200000", 24), "good 24");  // Tells what has changed.
  EXPECT_EQ(b.in("000000000000", 0), "good");
  b.unit.on_gone(NexusId{1});
  b.unit.reset(NexusId{0});
  b.unit.on_login(NexusId{1},
                  {.name = "iqn.2026-01.test:1"});  // Another one, with the same number.
  EXPECT_EQ(b.in("000000000000", 0, NexusId{1}), "good");
}

TEST(ScsiUnit, ANumberWithoutAUnitAnswersThreeCommands) {
  std::vector<std::byte> memory(LogicalUnit::kMemoryBytes);
  const auto run = [&](std::string_view hex, std::uint32_t in) {
    const auto cdb = bytes_of_hex(hex);
    return text(plan_without_unit({.cdb = cdb, .data_in_bytes = in}, memory));
  };
  EXPECT_EQ(run("120000002400", 36), "good 36");
  EXPECT_EQ(memory[0], std::byte{0x7f});
  EXPECT_EQ(run("a00000000000000010000000", 4096), "good 16, in -4080");  // As Linux: unit 0.
  EXPECT_EQ(run("030000001200", 18), "good 18");
  EXPECT_EQ(run("000000000000", 0), "check 5/2500");
  EXPECT_EQ(run("28000000000000000100", 512), "check 5/2500");
  EXPECT_EQ(run("ff", 0), "check 5/2500");
}

TEST(ScsiUnit, AFailedStoreIsToldAsWhatItIs) {
  using storage::StoreStatus;
  const auto said = [](const Step& step, StoreStatus status) {
    return text(LogicalUnit::outcome(step, status));
  };
  EXPECT_EQ(said(ReadBlocks{}, StoreStatus::medium_error), "check 3/1100");
  EXPECT_EQ(said(WriteBlocks{}, StoreStatus::medium_error), "check 3/0c00");
  EXPECT_EQ(said(SyncBlocks{}, StoreStatus::medium_error), "check 3/0c00");
  EXPECT_EQ(said(WriteBlocks{}, StoreStatus::no_space), "check 7/2707");
  EXPECT_EQ(said(WriteBlocks{}, StoreStatus::read_only), "check 7/2700");
  EXPECT_EQ(said(ReadBlocks{}, StoreStatus::gone), "check 5/2500");
  EXPECT_EQ(said(ReadBlocks{}, StoreStatus::done), "good");
}

}  // namespace
}  // namespace verbatim::ulp::scsi

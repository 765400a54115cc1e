#include <gtest/gtest.h>

#include "ulp/scsi/unit_bench_for_test.h"

/// The bytes of answers. Those that are told to be Linux's were captured between two kernels.
namespace verbatim::ulp::scsi {
namespace {

TEST(ScsiAnswers, AnswersTheCommandsOfLinuxAsLinuxDoes) {
  UnitBench b(captured());
  // INQUIRY, but for explicit transitions of port groups, which we do not offer.
  EXPECT_EQ(b.data("120000006000"),
            "000006025b9810024c494f2d4f52472046494c45494f20202020202020202020342e3020"
            "0000000000000000000000000000000000000000000000a00960046004c0"
            "000000000000000000000000000000000000000000000000000000000000");
  EXPECT_EQ(b.data("120000002400").size(), 72u);
  EXPECT_EQ(b.data("120100000400"), "00000000");  // No serial number, no pages.
  EXPECT_EQ(b.in("000000000000", 0), "good");
  EXPECT_EQ(b.data("9e100000000000000000000000200000"),
            "0000000000007fff000002000000000000000000000000000000000000000000");
  EXPECT_EQ(b.data("1a003f000400"), "43000008");
  EXPECT_EQ(b.data("1a0008000400"), "1f000008");
  EXPECT_EQ(b.data("1a0008002000"),
            "1f00000800007fff000002000812000000000000000000002000000000000000");
  // 36 bytes are asked for, 4 are there: Linux's answer tells a residual of 32.
  EXPECT_EQ(b.in("120100002400", 36), "good 4, in -32");
}

TEST(ScsiAnswers, ReportsUnitsAsLinuxDoes) {
  UnitBench b(captured());
  EXPECT_EQ(b.data("a00000000000000010000000"),
            "0000001000000000"
            "0000000000000000"
            "0001000000000000");
  EXPECT_EQ(b.in("a00000000000000010000000", 4096), "good 24, in -4072");
  EXPECT_EQ(b.in("a00000000000000000100000", 16), "good 16");
  EXPECT_EQ(b.in("a000000000000000000f0000"), "check 5/2400 @6");
  EXPECT_EQ(b.in("a00003000000000000100000"), "check 5/2400 @2.7");
}

TEST(ScsiAnswers, VitalPagesTellTheSerialNumberAndThePort) {
  UnitBench b(captured(), {.serial = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"});
  EXPECT_EQ(b.data("12010000ff00"), "0000000700808386b0b1b2");
  EXPECT_EQ(
      b.data("12018000ff00"),
      "00800025" + hex_of(bytes_of_hex("30613162326333642d346535662d363037312d383239332d61346235"
                                       "633664376538663900")));
  EXPECT_EQ(b.data("12018300ff00"),
            "0083009c"
            "0103001060014050a1b2c3d4e5f60718293a4b5c"  // The unit's name: company 001405.
            "02010034"
            "4c494f2d4f52472046494c45494f3a"  // Vendor, product, serial number.
            "30613162326333642d346535662d363037312d383239332d61346235633664376538663900"
            "5194000400000001"  // Relative port 1.
            "5195000400000000"  // Port group 0.
            "0106000400000000"  // Unit group 0.
            "5398001c69716e2e323032362d30312e746573743a742c742c30783030303100"
            "53a8001469716e2e323032362d30312e746573743a740000");
  EXPECT_EQ(b.data("12018600ff00").substr(0, 16), "0086003c00070000");
  EXPECT_EQ(b.in("1201b300ff00"), "check 5/2400 @2.7");
  EXPECT_EQ(b.in("12008000ff00"), "check 5/2400 @2.7");  // A page without EVPD.
}

TEST(ScsiAnswers, PagesOfBlocksTellLimitsAndProvisioning) {
  UnitBench plain(captured());
  EXPECT_EQ(plain.data("1201b000ff00").substr(0, 88),
            "00b0003c01010001"
            "00004000"
            "00004000"
            "00000000"
            "00000000"
            "00000000"
            "00000000"
            "00000000"
            "0000000000001000");
  EXPECT_EQ(plain.data("1201b200ff00"), "00b2000400000000");
  EXPECT_EQ(plain.data("1201b100ff00").substr(0, 12), "00b1003c0000");
  UnitBench thin(with_all());
  EXPECT_EQ(thin.data("1201b000ff00").substr(0, 88),
            "00b0003c01010001"
            "00000080"
            "00000080"
            "00000000"
            "00000064"
            "00000003"
            "00000001"
            "00000000"
            "0000000000000040");
  EXPECT_EQ(thin.data("1201b200ff00"), "00b2000400e00200");
  EXPECT_EQ(thin.data("9e100000000000000000000000200000"),
            "00000000000003e7000002000000"
            "80" +
                std::string(34, '0'));
  EXPECT_EQ(thin.data("12018600ff00").substr(0, 16), "0086003c00070100");
  EXPECT_EQ(thin.data("1a0008002000").substr(0, 32), "1f001008000003e70000020008120400");
}

TEST(ScsiAnswers, CapacityBeyond32BitsIsToldBy16) {
  UnitSettings settings = captured();
  settings.blocks = 1ull << 33;
  UnitBench b(settings);
  EXPECT_EQ(b.data("25000000000000000000"), "ffffffff00000200");
  EXPECT_EQ(b.data("9e100000000000000000000000 0c 0000").substr(0, 24), "00000001ffffffff00000200");
  EXPECT_EQ(b.unit.sense_format(), SenseFormat::descriptor);
  EXPECT_EQ(b.data("1a000a00ff00").substr(24),
            "0a0a06100040"
            "0000"
            "ffff"
            "001e");                                                              // D_SENSE.
  EXPECT_EQ(b.data("5a100a00000000 00ff 00").substr(0, 16), "0022000001000010");  // LONGLBA.
  EXPECT_EQ(b.in("25000000000100000000"), "check 5/2400 @2");
  UnitBench small(captured());
  EXPECT_EQ(small.data("25000000000000000000"), "00007fff00000200");
  EXPECT_EQ(small.in("25000000000000000000", 4), "good 4, in +4");
}

TEST(ScsiAnswers, ModePagesCanBeReadButNotChanged) {
  UnitBench b(captured());
  EXPECT_EQ(b.in("1a000300ff00"), "check 5/2400 @2.5");
  EXPECT_EQ(b.in("1a000801ff00"), "check 5/2400 @3.7");
  EXPECT_EQ(b.in("1a00c800ff00"), "check 5/3900");  // Saved values.
  EXPECT_EQ(b.data("1a084800ff00"),
            "17000000"
            "0812" +
                std::string(36, '0'));  // Changeable: none.
  EXPECT_EQ(b.data("1a083fffff00").size(), 2 * (4 + 12 + 20 + 12 + 12u));
  EXPECT_EQ(b.out("151000001800", 24), "parameters 24");
  EXPECT_EQ(b.out("150000001800", 24), "check 5/2400 @1.4");  // Without PF.
  EXPECT_EQ(b.out("151100001800", 24), "check 5/2400 @1.0");  // Save.
  EXPECT_EQ(b.out("151000001800", 23), "check 5/2400 @4.7");
  const std::string head = "00000000", page =
                                           "0812"
                                           "0000"
                                           "0000000000000000"
                                           "20000000"
                                           "00000000";
  EXPECT_EQ(b.parameters("151000001800", head + page), "good");
  EXPECT_EQ(b.parameters("151000001800", head +
                                             "0812"
                                             "0400" +
                                             page.substr(8)),
            "check 5/2600 p6");  // Write cache on.
  EXPECT_EQ(b.parameters("151000001800", head + page.substr(0, 20)), "check 5/1a00");
  EXPECT_EQ(b.parameters("151000001800", head + "0302"), "check 5/2600 p4.5");
  EXPECT_EQ(b.parameters("151000001800", "0000"), "check 5/1a00");
}

TEST(ScsiAnswers, OperationCodesAreToldAsTheTableHasThem) {
  UnitBench b(with_all());
  EXPECT_EQ(b.data("a30c 01 28 0000 000000ff 0000"),
            "0003000a"
            "28f8ffffffff00ffff04");
  EXPECT_EQ(b.data("a30c 81 00 0000 000000ff 0000").size(), 2 * (4 + 6 + 12u));
  EXPECT_EQ(b.data("a30c 02 9e 0010 000000ff 0000").substr(0, 12), "000300109e1f");
  EXPECT_EQ(b.data("a30c 03 5e 0000 000000ff 0000"), "0003000a5e1f0000000000ffff04");
  EXPECT_EQ(b.data("a30c 03 5e 0004 000000ff 0000"), "00010000");
  EXPECT_EQ(b.data("a30c 02 9e 0011 000000ff 0000"), "00010000");
  EXPECT_EQ(b.in("a30c 01 9e 0000 000000ff 0000"), "check 5/2400 @4");
  EXPECT_EQ(b.in("a30c 02 28 0000 000000ff 0000"), "check 5/2400 @4");
  EXPECT_EQ(b.in("a30c 04 28 0000 000000ff 0000"), "check 5/2400 @2.2");
  EXPECT_EQ(b.data("a30c 00 00 0000 00002000 0000").substr(0, 24),
            "00000198"
            "0000000000000006");
  UnitBench plain(captured());
  EXPECT_EQ(plain.data("a30c 01 42 0000 000000ff 0000"), "00010000");  // No UNMAP there,
  EXPECT_EQ(plain.data("a30c 01 28 0000 000000ff 0000"),               // no DPO and FUA.
            "0003000a"
            "28e0ffffffff00ffff04");
}

TEST(ScsiAnswers, OnePortGroupIsActive) {
  UnitBench b(captured());
  EXPECT_EQ(b.data("a30a 00000000 000000ff 0000"),
            "00000010"
            "0001000000000002"
            "00000001"
            "00000002");
  EXPECT_EQ(b.data("a32a 00000000 000000ff 0000"),
            "00000014"
            "10000000"
            "0001000000000002"
            "00000001"
            "00000002");
}

}  // namespace
}  // namespace verbatim::ulp::scsi

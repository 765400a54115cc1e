#include "ulp/scsi/cdb.h"

#include <bit>

#include <gtest/gtest.h>

#include "ulp/scsi/text_for_test.h"

namespace verbatim::ulp::scsi {
namespace {

std::string decoded(std::string_view hex) {
  const auto bytes = bytes_of_hex(hex);
  const auto cdb = decode_cdb(bytes);
  if (!cdb) return text(cdb.error());
  return fmt::format("{}: +{} {}", static_cast<int>(cdb->operation()), cdb->address, cdb->length);
}
std::string of(Operation operation, std::uint64_t address, std::uint32_t length) {
  return fmt::format("{}: +{} {}", static_cast<int>(operation), address, length);
}

TEST(ScsiCdb, TableIsSortedAndComplete) {
  int last = -1;
  for (const CdbFormat& format : cdb_formats()) {
    const int place = format.opcode << 8 | (format.has_action() ? format.action : 0);
    EXPECT_GT(place, last);
    last = place;
    EXPECT_EQ(format.usage[0], format.opcode);
    // SPC-4, 4.2.5.1: the group of an operation code tells the length.
    constexpr int kGroups[] = {6, 10, 10, 0, 16, 12, 0, 0};
    EXPECT_EQ(format.bytes, kGroups[format.opcode >> 5]);
    EXPECT_LT(format.length_at + format.length_bytes, format.bytes);
    EXPECT_LT(format.address_at + format.address_bytes, format.bytes);
    for (std::size_t i = 0; i < format.length_bytes; ++i)
      EXPECT_EQ(format.usage[format.length_at + i], 0xff) << int{format.opcode};
    for (std::size_t i = format.bytes; i < format.usage.size(); ++i) EXPECT_EQ(format.usage[i], 0);
    EXPECT_EQ(find_format(format.opcode, format.has_action() ? format.action : 0x1f), &format);
  }
}

TEST(ScsiCdb, FieldsAreWhereEachLengthHasThem) {
  EXPECT_EQ(decoded("08 ff ff ff 03 00"), of(Operation::read, 0x1fffff, 3));
  EXPECT_EQ(decoded("0a 00 00 01 00 00"), of(Operation::write, 1, 256));
  EXPECT_EQ(decoded("28 00 00 01 02 03 00 12 34 00"), of(Operation::read, 0x10203, 0x1234));
  EXPECT_EQ(decoded("aa 00 ff ff ff ff 00 01 00 00 00 00"),
            of(Operation::write, 0xffffffff, 0x10000));
  EXPECT_EQ(decoded("8a 00 0102030405060708 00000010 00 00"),
            of(Operation::write, 0x102030405060708, 16));
  EXPECT_EQ(decoded("89 00 0000000000000009 000000 01 00 00"),
            of(Operation::compare_and_write, 9, 1));
  EXPECT_EQ(decoded("12 01 83 01 02 00"), of(Operation::inquiry, 0, 0x102));
  EXPECT_EQ(decoded("9e 10 0000000000000000 00000020 00 00"),
            of(Operation::read_capacity_16, 0, 32));
  EXPECT_EQ(decoded("a0 00 00 000000 00001000 00 00"), of(Operation::report_luns, 0, 4096));
}

TEST(ScsiCdb, WhatIsUnknownOrCutIsRefused) {
  EXPECT_EQ(decoded(""), "5/2000");
  EXPECT_EQ(decoded("7f 00 00 00 00 00 00 18 00 0d"), "5/2000");
  EXPECT_EQ(decoded("9e 1f 0000000000000000 00000020 00 00"), "5/2400 @1.4");
  EXPECT_EQ(decoded("a3 05 00 00"), "5/2400 @1.4");
  EXPECT_EQ(decoded("28 00 00 00 00 00 00 00 01"), "5/2400 @9");
  EXPECT_EQ(decoded("00 00 00 00 00 04"), "5/2400 @5.2");  // NACA.
  int known = 0;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    std::vector<std::byte> bytes(16);
    bytes[0] = static_cast<std::byte>(opcode);
    const auto cdb = decode_cdb(bytes);
    if (cdb || cdb.error().code != SenseCode::invalid_operation_code) ++known;
  }
  EXPECT_EQ(known, 41);
}

TEST(ScsiSense, RefusalOfAnUnknownCommandIsAsLinuxSendsIt) {
  // Captured: REPORT SUPPORTED OPERATION CODES, which that kernel does not know; 96 bytes there.
  const auto bytes = encode(illegal_request(SenseCode::invalid_operation_code), SenseFormat::fixed);
  EXPECT_EQ(hex_of({bytes.begin(), bytes.size()}),
            "70000500000000"
            "0a00000000"
            "2000"
            "00000000");
}

TEST(ScsiSense, TellsFieldAndInformationInBothForms) {
  const auto hex = [](const Sense& sense, SenseFormat format) {
    const auto bytes = encode(sense, format);
    return hex_of({bytes.begin(), bytes.size()});
  };
  EXPECT_EQ(hex(invalid_field(1, 7), SenseFormat::fixed),
            "700005000000000a00000000240000"
            "cf0001");
  EXPECT_EQ(hex(invalid_parameter(0x123), SenseFormat::fixed),
            "700005000000000a00000000260000"
            "800123");
  EXPECT_EQ(hex(invalid_field(7, 7), SenseFormat::descriptor),
            "72052400000000"
            "08"
            "02060000cf000700");
  const Sense differs{SenseKey::miscompare, SenseCode::miscompare_during_verify, 0x201, {}};
  EXPECT_EQ(hex(differs, SenseFormat::fixed), "f0000e000002010a000000001d0000000000");
  EXPECT_EQ(hex(differs, SenseFormat::descriptor),
            "720e1d00000000"
            "0c"
            "000a80000000000000000201");
  // 32 bits are all that the fixed form has.
  const Sense far{SenseKey::miscompare, SenseCode::miscompare_during_verify, 1ull << 32, {}};
  EXPECT_EQ(hex(far, SenseFormat::fixed), "70000e000000000a000000001d0000000000");
}

}  // namespace
}  // namespace verbatim::ulp::scsi

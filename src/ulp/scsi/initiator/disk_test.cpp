#include "ulp/scsi/initiator/disk.h"

#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/scsi/unit_bench_for_test.h"

namespace verbatim::ulp::scsi {
namespace {

using Kind = storage::DiskRequest::Kind;

TEST(ScsiDisk, RequestsAreCommandsOf16Bytes) {
  const storage::DiskFacts facts{.bytes = 1 << 30,
                                 .block_bytes = 512,
                                 .can_discard = true,
                                 .can_write_zeroes = true,
                                 .can_write_stable = true};
  const auto hex = [&](storage::DiskRequest request) {
    const DiskCommand command = command_of(request, facts);
    return fmt::format("{} {}", hex_of(command.cdb), command.data_bytes);
  };
  EXPECT_EQ(hex({.kind = Kind::read, .offset = 4096, .bytes = 1024}),
            "88000000000000000008000000020000 1024");
  EXPECT_EQ(hex({.kind = Kind::write, .offset = 512, .bytes = 512}),
            "8a000000000000000001000000010000 512");
  EXPECT_EQ(hex({.kind = Kind::write, .offset = 512, .bytes = 512, .is_stable = true}),
            "8a080000000000000001000000010000 512");
  EXPECT_EQ(hex({.kind = Kind::flush}), "91000000000000000000000000000000 0");
  EXPECT_EQ(hex({.kind = Kind::discard, .offset = 512, .bytes = 1 << 20}),
            "93080000000000000001000008000000 512");
  EXPECT_EQ(hex({.kind = Kind::write_zeroes, .offset = 512, .bytes = 512}),
            "93000000000000000001000000010000 512");
  EXPECT_EQ(hex({.kind = Kind::write_zeroes, .bytes = 512, .may_discard = true}),
            "93080000000000000000000000010000 512");
}

TEST(ScsiDisk, UnitsOfATargetAreListed) {
  DiskProbe probe = DiskProbe::of_units();
  ASSERT_TRUE(probe.command());
  EXPECT_EQ(hex_of(probe.command()->cdb), "a0000000000000000808000000000000");
  std::vector<std::byte> list(8 + 3 * 8 + 8, std::byte{0xff});
  const std::uint16_t units[] = {0, 5, 0x4101};  // Of a peripheral device twice, and flat.
  store_be(list.data(), std::uint32_t{3 * 8});
  for (std::size_t i = 0; i < std::size(units); ++i) store_be(&list[8 + 8 * i], units[i]);
  probe.on_answer(Status::good, {}, list);
  ASSERT_NE(probe.facts(), nullptr);
  EXPECT_FALSE(probe.command());
  EXPECT_EQ(probe.facts()->units, (std::vector<std::uint16_t>{0, 5, 0x101}));
  DiskProbe refused = DiskProbe::of_units();
  refused.on_answer(Status::good, {}, ByteSpan(list).first(7));
  EXPECT_NE(refused.failure(), nullptr);
}

TEST(ScsiDisk, ErrorsAreErrnoValues) {
  const auto error = [](const Sense& sense, SenseFormat format) {
    const SenseBytes bytes = encode(sense, format);
    return error_of(Status::check_condition, {bytes.begin(), bytes.size()});
  };
  for (const SenseFormat form : {SenseFormat::fixed, SenseFormat::descriptor}) {
    EXPECT_EQ(error({SenseKey::medium_error, SenseCode::unrecovered_read_error, {}, {}}, form),
              EIO);
    EXPECT_EQ(error({SenseKey::unit_attention, SenseCode::power_on_or_reset, {}, {}}, form),
              EAGAIN);
    EXPECT_EQ(error(write_protected(), form), EROFS);
    EXPECT_EQ(error({SenseKey::data_protect, SenseCode::space_allocation_failed, {}, {}}, form),
              ENOSPC);
    EXPECT_EQ(error(illegal_request(SenseCode::block_address_out_of_range), form), EINVAL);
    EXPECT_EQ(error(illegal_request(SenseCode::invalid_operation_code), form), EOPNOTSUPP);
  }
  EXPECT_EQ(error_of(Status::good, {}), 0);
  EXPECT_EQ(error_of(Status::busy, {}), EAGAIN);
  EXPECT_EQ(error_of(Status::reservation_conflict, {}), EPERM);
  EXPECT_EQ(error_of(Status::check_condition, {}), EIO);
  EXPECT_EQ(error_of(Status{0x77}, {}), EIO);
}

/// A unit of ours, asked as a session would.
storage::DiskFacts facts_of(const UnitSettings& settings) {
  LogicalUnit unit(storage::UnitId{1}, {.serial = "42"}, settings);
  unit.on_login(NexusId{0}, {.name = "iqn.2026-01.test:0"});
  const Port port;
  const Lun lun{};
  DiskProbe probe;
  for (int i = 0; i < 40; ++i) {
    const auto command = probe.command();
    if (!command) break;
    std::vector<std::byte> reply(LogicalUnit::kMemoryBytes);
    const Plan plan = unit.plan({.nexus = NexusId{0},
                                 .port = &port,
                                 .cdb = command->cdb,
                                 .luns = {&lun, 1},
                                 .data_in_bytes = command->data_bytes},
                                reply);
    const auto& answer = std::get<Answer>(plan.step);
    const SenseBytes sense =
        answer.sense ? encode(*answer.sense, SenseFormat::fixed) : SenseBytes{};
    probe.on_answer(answer.status, {sense.begin(), sense.size()}, answer.data);
  }
  return probe.facts() == nullptr ? storage::DiskFacts{} : *probe.facts();
}

TEST(ScsiDisk, ProbeOfOurOwnUnit) {
  const storage::DiskFacts plain = facts_of(captured());
  EXPECT_EQ(plain.bytes, 32768u * 512);
  EXPECT_EQ(plain.block_bytes, 512u);
  EXPECT_EQ(plain.name, "LIO-ORG FILEIO 4.0");
  EXPECT_TRUE(plain.can_write_zeroes);
  EXPECT_FALSE(plain.can_discard || plain.is_read_only || plain.can_write_stable);
  EXPECT_EQ(plain.transfer_bytes_max, 16384u * 512);

  UnitSettings settings = with_all();
  settings.block_bytes = 4096;
  settings.is_read_only = true;
  const storage::DiskFacts all = facts_of(settings);
  EXPECT_EQ(all.bytes, 4096000u);
  EXPECT_EQ(all.clear_bytes_max, 64u * 4096);
  EXPECT_TRUE(all.can_discard && all.is_read_only && all.can_write_stable);
}

/// Of a vendor's name and an NAA of the unit, and one of the port; cut anywhere.
TEST(ScsiDisk, ADiskIsKnownByItsBestDesignator) {
  const std::uint8_t page[] = {0, 0x83, 0, 26,                        //
                               2, 0x01, 0, 4,  'T',  'E',  'S', 'T',  //
                               1, 0x93, 0, 2,  0x50, 0x01,            //
                               1, 0x03, 0, 2,  0x60, 0x01,            //
                               2, 0x08, 0, 2,  'i',  'q'};
  const auto identity = [&](std::size_t bytes) {
    DiskProbe probe;
    for (int step = 0; step < 6; ++step) {
      std::vector<std::byte> data(192);
      if (step == 2) data[7] = std::byte{99}, data[10] = std::byte{2};  // Blocks of 512.
      probe.on_answer(Status::good, {}, data);
    }
    EXPECT_EQ(hex_of(probe.command()->cdb).substr(0, 12), "12018300ff00");
    probe.on_answer(Status::good, {}, std::as_bytes(std::span(page)).first(bytes));
    return probe.facts() == nullptr ? "none" : probe.facts()->identity;
  };
  EXPECT_EQ(identity(std::size(page)), "6001");
  EXPECT_EQ(identity(23), "54455354") << "the NAA is cut";
  EXPECT_EQ(identity(11), "");
  EXPECT_EQ(identity(0), "");
}

TEST(ScsiDisk, WhatIsNoDisk) {
  DiskProbe probe;
  probe.on_answer(Status::good, {}, {});
  std::vector<std::byte> data(36);
  data[0] = std::byte{0x7f};
  probe.on_answer(Status::good, {}, data);
  ASSERT_NE(probe.failure(), nullptr);
  EXPECT_EQ(probe.failure()->words, "the target has no unit of this number");
  EXPECT_TRUE(probe.failure()->is_final);
  EXPECT_FALSE(probe.command());

  DiskProbe unknown;
  const SenseBytes sense =
      encode(illegal_request(SenseCode::unit_not_supported), SenseFormat::fixed);
  unknown.on_answer(Status::check_condition, {sense.begin(), sense.size()}, {});
  EXPECT_EQ(unknown.failure()->words, "the target has no unit of this number");

  DiskProbe busy;  // For ever.
  for (int i = 0; i < 30 && busy.command(); ++i) busy.on_answer(Status::busy, {}, {});
  ASSERT_NE(busy.failure(), nullptr);
  EXPECT_FALSE(busy.failure()->is_final);
}

}  // namespace
}  // namespace verbatim::ulp::scsi

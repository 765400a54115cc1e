#include "ulp/scsi/reservations/reservations.h"

#include <gtest/gtest.h>

#include "ulp/scsi/unit_bench_for_test.h"

/// Two initiators, and what the second one may do while the first one has a reservation.
namespace verbatim::ulp::scsi {
namespace {

constexpr NexusId kFirst{0}, kSecond{1}, kThird{2};
constexpr unsigned kRegister = 0, kReserve = 1, kRelease = 2, kClear = 3, kPreempt = 4,
                   kPreemptAndAbort = 5, kRegisterWhatever = 6;

std::string parameters(std::uint64_t key, std::uint64_t action_key, unsigned flags = 0) {
  return fmt::format("{:016x}{:016x}00000000{:02x}000000", key, action_key, flags);
}

class ReservationsTest : public testing::Test {
 protected:
  ReservationsTest() { b.unit.on_login(kThird, {.name = "iqn.2026-01.test:2"}); }

  std::string out(unsigned action, NexusId nexus, std::uint64_t key, std::uint64_t action_key = 0,
                  unsigned type = 0, unsigned flags = 0) {
    const auto cdb = fmt::format("5f{:02x}{:02x}00000000001800", action, type);
    return b.parameters(cdb, parameters(key, action_key, flags), nexus);
  }
  std::string tell(NexusId nexus) { return b.in("000000000000", 0, nexus); }
  std::string read(NexusId nexus) { return b.in("28000000000000000100", 512, nexus); }
  std::string write(NexusId nexus) {
    const std::string said = b.in("2a000000000000000000", 0, nexus);  // No block: who may is asked.
    return said;
  }
  std::string keys() { return b.data("5e00000000000010 0000"); }
  std::string reservation() { return b.data("5e01000000000010 0000"); }

  UnitBench b{captured()};
};

TEST_F(ReservationsTest, EachTypeKeepsOutWhomItShould) {
  // Type; what a registrant, and what another one, may: read and write.
  struct Row {
    unsigned type;
    const char* registrant;
    const char* other;
  };
  constexpr Row rows[] = {{1, "r-", "r-"}, {3, "--", "--"}, {5, "rw", "r-"},
                          {6, "rw", "--"}, {7, "rw", "r-"}, {8, "rw", "--"}};
  ASSERT_EQ(out(kRegister, kFirst, 0, 0xa), "good");
  ASSERT_EQ(out(kRegister, kSecond, 0, 0xb), "good");
  const auto may = [&](NexusId nexus) {
    std::string text = read(nexus) == "conflict" ? "-" : "r";
    return text + (write(nexus) == "conflict" ? "-" : "w");
  };
  for (const Row& row : rows) {
    ASSERT_EQ(out(kReserve, kFirst, 0xa, 0, row.type), "good");
    EXPECT_EQ(may(kFirst), "rw") << row.type;
    EXPECT_EQ(may(kSecond), row.registrant) << row.type;
    EXPECT_EQ(may(kThird), row.other) << row.type;
    EXPECT_EQ(tell(kThird), "good") << "TEST UNIT READY is always allowed";
    ASSERT_EQ(out(kRelease, kFirst, 0xa, 0, row.type), "good");
    if (row.type > 3) {
      EXPECT_EQ(tell(kSecond), "check 6/2a04") << "the reservation is released";
      EXPECT_EQ(tell(kThird), "good") << "not registered, so it is not told";
    }
    EXPECT_EQ(may(kThird), "rw") << row.type;
  }
}

TEST_F(ReservationsTest, KeysAreComparedAndCounted) {
  EXPECT_EQ(out(kRegister, kFirst, 1, 0xa), "conflict") << "a key, but none is registered";
  EXPECT_EQ(out(kReserve, kFirst, 0, 0, 1), "conflict") << "not registered";
  EXPECT_EQ(out(kRegister, kFirst, 0, 0xa), "good");
  EXPECT_EQ(out(kRegister, kFirst, 0, 0xc), "conflict");
  EXPECT_EQ(out(kRegister, kFirst, 0xa, 0xc), "good");
  EXPECT_EQ(out(kRegisterWhatever, kSecond, 77, 0xb), "good");
  EXPECT_EQ(keys(), "0000000300000010000000000000000c000000000000000b");
  EXPECT_EQ(reservation(), "0000000300000000");
  EXPECT_EQ(out(kReserve, kFirst, 0xc, 0, 2), "check 5/2400 @2.3") << "no type";
  EXPECT_EQ(out(kReserve, kFirst, 0xc, 0, 0x11), "check 5/2400 @2.7") << "no scope";
  EXPECT_EQ(out(kReserve, kFirst, 0xc, 0, 1), "good");
  EXPECT_EQ(out(kReserve, kFirst, 0xc, 0, 1), "good") << "again";
  EXPECT_EQ(out(kReserve, kFirst, 0xc, 0, 3), "conflict");
  EXPECT_EQ(out(kReserve, kSecond, 0xb, 0, 1), "conflict");
  EXPECT_EQ(reservation(), "0000000300000010000000000000000c0000000000010000");
  EXPECT_EQ(out(kRelease, kSecond, 0xb, 0, 1), "good") << "not the holder: nothing happens";
  EXPECT_EQ(out(kRelease, kFirst, 0xc, 0, 3), "check 5/2604");
  EXPECT_EQ(out(kRegister, kFirst, 0xc, 0), "good") << "the holder unregisters: it is released";
  EXPECT_EQ(reservation(), "0000000400000000");
  EXPECT_EQ(out(kClear, kSecond, 0xb), "good");
  EXPECT_EQ(keys(), "0000000500000000");
}

TEST_F(ReservationsTest, WhatIsNotOfferedIsRefused) {
  for (const auto& [flags, where] : {std::pair(0x08u, "p20.3"), {0x04u, "p20.2"}, {0x01u, "p20.0"}})
    EXPECT_EQ(out(kRegister, kFirst, 0, 0xa, 0, flags), std::string("check 5/2600 ") + where);
  EXPECT_EQ(b.out("5f000000000000000000", 0), "check 5/1a00") << "no parameters";
  EXPECT_EQ(b.parameters("5f000000000000001700", std::string(46, '0')), "check 5/1a00");
  EXPECT_EQ(b.in("5e040000000000001000", 16), "check 5/2400 @1.4") << "no such action";
  EXPECT_EQ(b.data("5e020000000000001000"), "00080880ea010000");
}

/// SPEC_I_PT: an initiator registers others with itself, all or none.
TEST_F(ReservationsTest, OthersAreRegisteredByTheirTransportIds) {
  const auto id = [](const char* name) {
    std::string text(name);
    text.resize(20, '\0');
    return "05000014" + hex_of(std::as_bytes(std::span(text)));
  };
  const auto enroll = [&](NexusId nexus, std::uint64_t key, const std::string& ids,
                          std::size_t more = 0) {
    const std::size_t bytes = ids.size() / 2;
    return b.parameters(fmt::format("5f0000000000{:06x}00", 28 + bytes),
                        parameters(key, 0xa, 0x08) + fmt::format("{:08x}", bytes + more) + ids,
                        nexus);
  };
  const std::string second = id("iqn.2026-01.test:1"), absent = id("iqn.2026-01.test:9");
  EXPECT_EQ(enroll(kFirst, 0, second, 4), "check 5/2600 p24") << "another length";
  EXPECT_EQ(enroll(kFirst, 0, second + "0f000000"), "check 5/2600 p24") << "no protocol of ours";
  EXPECT_EQ(enroll(kFirst, 0, second.substr(0, 8)), "check 5/2600 p24") << "cut";
  EXPECT_EQ(keys(), "0000000000000000") << "none of them";
  EXPECT_EQ(enroll(kFirst, 0, second + absent), "good");
  EXPECT_EQ(keys(), "0000000100000018000000000000000a000000000000000a000000000000000a");
  EXPECT_EQ(enroll(kFirst, 0xa, second), "check 5/2600 p20.3") << "it is registered";
  ASSERT_EQ(out(kReserve, kFirst, 0xa, 0, 6), "good");
  EXPECT_EQ(read(kSecond), "read +0 512");
  EXPECT_EQ(read(kThird), "conflict");
}

TEST_F(ReservationsTest, PreemptTakesOverAndTellsWhoIsRemoved) {
  for (const auto& [nexus, key] : {std::pair(kFirst, 1u), {kSecond, 2u}, {kThird, 3u}})
    ASSERT_EQ(out(kRegister, nexus, 0, key), "good");
  ASSERT_EQ(out(kReserve, kFirst, 1, 0, 5), "good");
  EXPECT_EQ(out(kPreempt, kSecond, 2, 9, 5), "conflict") << "nobody has the key";
  EXPECT_EQ(out(kPreempt, kSecond, 2, 0, 5), "check 5/2600 p8");
  EXPECT_EQ(out(kPreempt, kSecond, 2, 3, 1), "good") << "not the holder: only its registration";
  EXPECT_EQ(tell(kThird), "check 6/2a05");
  EXPECT_EQ(reservation(), "000000040000001000000000000000010000000000050000");
  EXPECT_EQ(out(kPreemptAndAbort, kSecond, 2, 1, 3), "good");
  EXPECT_EQ(tell(kFirst), "check 6/2a05");
  EXPECT_EQ(reservation(), "000000050000001000000000000000020000000000030000");
  EXPECT_EQ(keys(), "00000005000000080000000000000002");
  const auto begun = b.unit.on_begin(kFirst);
  ASSERT_EQ(out(kRegister, kFirst, 0, 1), "good");
  EXPECT_FALSE(b.unit.is_condemned(kFirst, begun));
  EXPECT_EQ(out(kPreemptAndAbort, kSecond, 2, 1, 3), "good");
  EXPECT_TRUE(b.unit.is_condemned(kFirst, begun)) << "its tasks end";
  EXPECT_FALSE(b.unit.is_condemned(kFirst, b.unit.on_begin(kFirst)));
}

TEST_F(ReservationsTest, AllRegistrantsHoldItUntilTheLastOneGoes) {
  ASSERT_EQ(out(kRegister, kFirst, 0, 1), "good");
  ASSERT_EQ(out(kRegister, kSecond, 0, 2), "good");
  ASSERT_EQ(out(kReserve, kFirst, 1, 0, 8), "good");
  EXPECT_EQ(reservation(), "000000020000001000000000000000000000000000080000") << "no key of one";
  EXPECT_EQ(out(kReserve, kSecond, 2, 0, 8), "good") << "it holds it, too";
  EXPECT_EQ(out(kRegister, kFirst, 1, 0), "good");
  EXPECT_EQ(read(kThird), "conflict");
  EXPECT_EQ(out(kPreempt, kSecond, 2, 0, 3), "good") << "a key of 0 names all others";
  EXPECT_EQ(reservation(), "000000040000001000000000000000020000000000030000");
  EXPECT_EQ(out(kRegister, kSecond, 2, 0), "good");
  EXPECT_EQ(read(kThird), "read +0 512");
}

TEST_F(ReservationsTest, ItIsMovedToAPortThatNeedNotBeThere) {
  ASSERT_EQ(out(kRegister, kFirst, 0, 1), "good");
  ASSERT_EQ(out(kReserve, kFirst, 1, 0, 3), "good");
  // TransportID: iSCSI, "iqn.2026-01.test:1" and zeroes.
  const std::string to = "05000014" + hex_of(std::as_bytes(std::span("iqn.2026-01.test:1"))) + "00";
  EXPECT_EQ(
      b.parameters("5f070000000000003000", "000000000000000100000000000000070002000100000018" + to),
      "good");
  EXPECT_EQ(read(kFirst), "conflict");
  EXPECT_EQ(read(kSecond), "read +0 512");
  EXPECT_EQ(b.data("5e03000000000010 0000"),
            "0000000200000030"
            "0000000000000007"
            "00000000"
            "01"
            "03"
            "00000000"
            "0001"
            "00000018" +
                to);
}

TEST_F(ReservationsTest, RegistrationsOutliveSessions) {
  ASSERT_EQ(out(kRegister, kFirst, 0, 1), "good");
  ASSERT_EQ(out(kReserve, kFirst, 1, 0, 3), "good");
  b.unit.on_gone(kFirst);
  EXPECT_EQ(read(kSecond), "conflict");
  b.unit.on_login(NexusId{7}, {.name = "iqn.2026-01.test:0"});
  EXPECT_EQ(read(NexusId{7}), "read +0 512") << "the same initiator, with another session";
}

TEST_F(ReservationsTest, Scsi2ReservesUntilReleaseResetOrLogout) {
  const char *reserve = "160000000000", *release = "170000000000";
  EXPECT_EQ(b.in(reserve, 0, kFirst), "good");
  EXPECT_EQ(b.in(reserve, 0, kFirst), "good");
  EXPECT_EQ(b.in(reserve, 0, kSecond), "conflict");
  EXPECT_EQ(tell(kSecond), "conflict");
  EXPECT_EQ(b.in("1a003f00ff00", 255, kSecond), "conflict") << "MODE SENSE";
  EXPECT_EQ(b.in("120000002400", 36, kSecond), "good 36") << "INQUIRY";
  EXPECT_EQ(out(kRegister, kFirst, 0, 1), "good");
  EXPECT_EQ(b.in(release, 0, kFirst), "conflict") << "not beside persistent ones";
  EXPECT_EQ(out(kClear, kFirst, 1), "good");
  EXPECT_EQ(b.in(release, 0, kSecond), "good") << "not its own: nothing happens";
  EXPECT_EQ(b.in(reserve, 0, kSecond), "conflict");
  b.unit.on_gone(kFirst);
  EXPECT_EQ(b.in(reserve, 0, kSecond), "good");
  b.unit.reset(kSecond);
  EXPECT_EQ(tell(kThird), "check 6/2903");
  EXPECT_EQ(b.in("560000000000000000 00", 0, kThird), "good");
}

TEST_F(ReservationsTest, UnitsOfOneDiskShareThem) {
  auto shared = std::make_shared<Reservations>();
  LogicalUnit one(storage::UnitId{1}, {}, captured(), shared);
  one.on_login(kFirst, {.name = "a"});
  {
    LogicalUnit other(storage::UnitId{1}, {}, captured(), shared);
    other.on_login(kFirst, {.name = "b"});
    shared->reserve(other.nexus_of(kFirst));
    EXPECT_TRUE(one.is_reserved(kFirst, Operation::read));
    EXPECT_FALSE(other.is_reserved(kFirst, Operation::read));
  }
  EXPECT_FALSE(one.is_reserved(kFirst, Operation::read)) << "its holder has gone";
}

TEST_F(ReservationsTest, AnInitiatorIsTheSameAtAPortThatHasAnotherNumber) {
  auto shared = std::make_shared<Reservations>();
  const InitiatorPort before{.name = "a", .target = "t", .target_id = 1};
  InitiatorPort now = before;
  now.target_id = 2;
  shared->restore({.registrants = {{before, 5}}, .type = ReservationType::exclusive_access});
  LogicalUnit unit(storage::UnitId{1}, {}, captured(), shared);
  unit.on_login(kFirst, now);
  unit.on_login(kSecond, {.name = "b", .target = "t"});
  EXPECT_FALSE(unit.is_reserved(kFirst, Operation::read));
  EXPECT_TRUE(unit.is_reserved(kSecond, Operation::read));
  EXPECT_EQ(shared->state().registrants[0].port.target_id, 2);
}

}  // namespace
}  // namespace verbatim::ulp::scsi

#include "ulp/scsi/initiator/port_access.h"

#include <gtest/gtest.h>

#include "ulp/scsi/initiator/disk.h"
#include "ulp/scsi/unit_bench_for_test.h"

namespace verbatim::ulp::scsi {
namespace {

using storage::PathState;

constexpr TimeNs kCalm = 10 * kSecond;

struct Said {
  Status status{};
  SenseBytes sense;
  std::vector<std::byte> data;
  ByteSpan sense_bytes() const { return {sense.begin(), sense.size()}; }
};

/// A unit of ours by ports 1 and 2, each in a group; the session is at port 2.
class PortAccessTest : public testing::Test {
 protected:
  void set(AccessState state) {
    PortGroup one{.ports = {{.port = 1}}}, two{.id = 9, .state = state, .ports = {{.port = 2}}};
    groups->set({one, two});
  }
  PortAccessTest() {
    set(AccessState::optimized);
    unit.on_login(NexusId{0}, {.name = "iqn.2026-01.test:0"});
  }
  Said say(const DiskCommand& command) {
    std::vector<std::byte> reply(LogicalUnit::kMemoryBytes);
    const Port port{.id = 2};
    const Lun lun{};
    const Plan plan = unit.plan({.nexus = NexusId{0},
                                 .port = &port,
                                 .cdb = command.cdb,
                                 .luns = {&lun, 1},
                                 .data_in_bytes = command.data_bytes},
                                reply);
    const auto& answer = std::get<Answer>(plan.step);
    return {.status = answer.status,
            .sense = answer.sense ? encode(*answer.sense, SenseFormat::fixed) : SenseBytes{},
            .data = {answer.data.begin(), answer.data.end()}};
  }
  DiskProbe probed() {
    DiskProbe probe;
    for (int i = 0; i < 40 && probe.command(); ++i) {
      const Said said = say(*probe.command());
      probe.on_answer(said.status, said.sense_bytes(), said.data);
    }
    return probe;
  }
  void report(PortAccess& access, TimeNs now) {
    access.on_asked(now);
    EXPECT_GT(access.deadline(false), now + kSecond) << "it is asked";
    const Said said = say(PortAccess::command());
    access.on_report(said.status, said.sense_bytes(), said.data, now);
  }
  /// TEST UNIT READY.
  void use(PortAccess& access, TimeNs now) { access.on_answer(say({}).sense_bytes(), now); }

  std::shared_ptr<PortGroups> groups =
      std::make_shared<PortGroups>(std::vector<std::uint16_t>{1, 2});
  LogicalUnit unit{
      storage::UnitId{7}, {.serial = "42"}, captured(), std::make_shared<Reservations>(), groups};
};

TEST_F(PortAccessTest, TheFirstReportComesWithTheDisk) {
  EXPECT_EQ(probed().access().state(), PathState::optimized);
  EXPECT_EQ(probed().access().deadline(false), kCalm);
  set(AccessState::non_optimized);
  EXPECT_EQ(probed().access().state(), PathState::non_optimized);
  set(AccessState::standby);
  const DiskProbe standby = probed();
  EXPECT_EQ(standby.access().state(), PathState::none);
  ASSERT_NE(standby.facts(), nullptr) << "a port in standby tells what disk it is";
  EXPECT_EQ(standby.facts()->bytes, 32768u * 512);
  EXPECT_FALSE(standby.facts()->identity.empty());
}

TEST_F(PortAccessTest, AnUnavailablePortIsTriedAgain) {
  set(AccessState::unavailable);
  const DiskProbe probe = probed();
  ASSERT_NE(probe.failure(), nullptr);
  EXPECT_FALSE(probe.failure()->is_final);
  EXPECT_NE(probe.failure()->words.find("2/040c"), std::string::npos) << probe.failure()->words;
}

TEST_F(PortAccessTest, ARefusedCommandMakesItAskUntilItIsOptimizedAgain) {
  DiskProbe probe = probed();
  PortAccess& access = probe.access();
  set(AccessState::standby);
  use(access, 10);
  EXPECT_EQ(access.state(), PathState::optimized) << "a unit attention says that it has changed";
  EXPECT_EQ(access.deadline(false), 10);
  use(access, 20);
  EXPECT_EQ(access.state(), PathState::none);
  report(access, 30);
  EXPECT_EQ(access.state(), PathState::none);
  EXPECT_EQ(access.deadline(false), 30 + kSecond);
  set(AccessState::non_optimized);
  report(access, 30 + kSecond);
  EXPECT_EQ(access.state(), PathState::none) << "the unit attention came first";
  EXPECT_EQ(access.deadline(false), 30 + kSecond);
  report(access, 40 + kSecond);
  EXPECT_EQ(access.state(), PathState::non_optimized);
  EXPECT_EQ(access.deadline(false), 40 + 2 * kSecond);
  set(AccessState::optimized);
  report(access, 40 + 2 * kSecond);
  report(access, 50 + 2 * kSecond);
  EXPECT_EQ(access.state(), PathState::optimized);
  EXPECT_EQ(access.deadline(false), 50 + 2 * kSecond + kCalm) << "nothing may be sent for long";
  EXPECT_EQ(access.deadline(true), kNever) << "the end of a command will tell";
  set(AccessState::standby);
  use(access, 100 + 2 * kSecond);
  EXPECT_EQ(access.deadline(true), 100 + 2 * kSecond);
}

TEST_F(PortAccessTest, ATargetWithoutGroupsIsAskedNothing) {
  PortAccess access;
  std::vector<std::byte> identity(36);
  access.take_identity(identity);
  access.take_group(1);
  const SenseBytes standby =
      encode({SenseKey::not_ready, SenseCode::port_in_standby, {}, {}}, SenseFormat::fixed);
  access.on_answer({standby.begin(), standby.size()}, 10);
  EXPECT_EQ(access.deadline(false), kNever);
  EXPECT_EQ(access.state(), PathState::optimized);
  identity[5] = std::byte{0x10};
  access.take_identity(identity);
  access.on_answer({standby.begin(), standby.size()}, 10);
  EXPECT_EQ(access.deadline(false), 10);
  const SenseBytes unknown =
      encode(illegal_request(SenseCode::invalid_operation_code), SenseFormat::descriptor);
  access.on_report(Status::check_condition, {unknown.begin(), unknown.size()}, {}, 20);
  EXPECT_EQ(access.state(), PathState::optimized) << "there is no such report";
  EXPECT_EQ(access.deadline(false), kNever);
}

TEST_F(PortAccessTest, ReportsThatAreCutEndWhereTheyEnd) {
  PortAccess access;
  std::vector<std::byte> identity(36, std::byte{0x20});
  access.take_identity(identity);
  access.take_group(9);
  const auto state_of = [&](std::string_view hex) {
    access.on_report(Status::good, {}, bytes_of_hex(hex), 0);
    return access.state();
  };
  EXPECT_EQ(state_of("00000014 0001000100000001 00000001 0101000900000000"),
            PathState::non_optimized);
  EXPECT_EQ(state_of("00000014 0401000900000000"), PathState::non_optimized) << "by its blocks";
  EXPECT_EQ(state_of("00000014 0001000900000000"), PathState::optimized);
  for (const char* const none :
       {"", "000000", "00000000 0001000900000000", "00000008 00010001000000ff", "ffffffff 000100",
        "00000014 0001000100000001 00000001 01010009000000", "00000008 0f01000900000000",
        "00000008 0e01000900000000", "00000008 0301000900000000"})
    EXPECT_EQ(state_of(none), PathState::none) << none;
}

}  // namespace
}  // namespace verbatim::ulp::scsi

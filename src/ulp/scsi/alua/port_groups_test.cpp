#include "ulp/scsi/alua/port_groups.h"

#include <gtest/gtest.h>

#include "ulp/scsi/unit_bench_for_test.h"

namespace verbatim::ulp::scsi {
namespace {

constexpr const char* kReady = "000000000000";
constexpr const char* kReport = "a30a 00000000 000000ff 0000";
/// With so many bytes of parameters.
constexpr const char* kSet4 = "a40a 00000000 00000004 0000";
constexpr const char* kSet8 = "a40a 00000000 00000008 0000";
constexpr const char* kSet12 = "a40a 00000000 0000000c 0000";

/// One disk with port 1 in group 0 and port 2 in group 5, each shown by a unit of its own.
class PortGroupsTest : public testing::Test {
 protected:
  static std::vector<PortGroup> two_groups() {
    PortGroup one{.name = "default_tg_pt_gp", .supported = 0xcf, .is_explicit = true};
    PortGroup two = one;
    one.ports = {{.port = 1}};
    two.ports = {{.port = 2}};
    two.name = "other";
    two.id = 5;
    return {one, two};
  }
  static UnitSettings settings() {
    UnitSettings settings = captured();
    settings.can_set_port_groups = true;
    return settings;
  }
  PortGroupsTest() {
    two.port.id = 2;
    groups->set(two_groups());
    groups->follow([this](const PortGroup& group) {
      followed += fmt::format("{} {};", group.name, static_cast<unsigned>(group.state));
    });
  }
  void set_state_of_two(AccessState state) {
    auto changed = two_groups();
    changed[1].state = state;
    changed[1].status = AccessStatus::target;
    groups->set(changed);
  }
  /// All initiators hear of a change once, and before anything else.
  void hear_of_it() {
    for (UnitBench* const bench : {&one, &two})
      for (const NexusId nexus : {NexusId{0}, NexusId{1}})
        EXPECT_EQ(bench->in(kReady, kMuch, nexus), "check 6/2a06");
  }

  std::shared_ptr<PortGroups> groups =
      std::make_shared<PortGroups>(std::vector<std::uint16_t>{1, 2});
  UnitBench one{settings(), {}, groups}, two{settings(), {}, groups};
  std::string followed;
};

TEST_F(PortGroupsTest, AreReportedWithTheirPorts) {
  groups->set(two_groups());
  auto all = two_groups();
  all[1].state = AccessState::standby;
  all[1].status = AccessStatus::target;
  all[1].is_preferred = true;
  all[1].transition_seconds = 7;
  groups->set(all);
  hear_of_it();
  EXPECT_EQ(one.data(kReport),
            "00000018"
            "00cf000000000001"
            "00000001"
            "82cf000500020001"
            "00000002");
  EXPECT_EQ(one.data("a32a 00000000 0000000c 0000"), "0000001c1000000000cf0000");
  EXPECT_EQ(two.data("a32a 00000000 00000008 0000"), "0000001c10070000");
  EXPECT_EQ(two.in("a34a 00000000 000000ff 0000"), "check 5/2400 @1.7");
}

TEST_F(PortGroupsTest, InquiryTellsOfTheGroupOfThePort) {
  EXPECT_EQ(one.data("120000000800"), "000006025bb81002");
  auto all = two_groups();
  all[1].is_explicit = false;
  groups->set(all);
  EXPECT_EQ(one.data("120000000800"), "000006025bb81002");
  EXPECT_EQ(two.data("120000000800"), "000006025b981002");
  const std::string page = two.data("12018300ff00");
  EXPECT_NE(page.find("5194000400000002"
                      "5195000400000005"),
            std::string::npos)
      << page;
}

TEST_F(PortGroupsTest, AStandbyPortReadsAndWritesNothing) {
  set_state_of_two(AccessState::standby);
  hear_of_it();
  EXPECT_EQ(one.in(kReady), "good");
  EXPECT_EQ(two.in(kReady), "check 2/040b");
  EXPECT_EQ(two.in("280000000000000001 00", 512), "check 2/040b");
  EXPECT_EQ(two.out("2a0000000000000001 00", 512), "check 2/040b");
  EXPECT_EQ(two.out("a40a0000000000000004 0000", 4), "parameters 4");
  EXPECT_EQ(two.in("25000000000000000000", 8), "good 8");
  EXPECT_EQ(two.in("5e00000000000000ff00", 8), "good 8");
  EXPECT_EQ(two.in("030000001200", 18), "good 18");
  EXPECT_EQ(two.in("1a003f00ff00").substr(0, 4), "good");
  EXPECT_EQ(two.in("120000006000", 96), "good 96");
}

TEST_F(PortGroupsTest, APortThatIsUnavailableOrOfflineTellsOnlyOfItself) {
  set_state_of_two(AccessState::unavailable);
  hear_of_it();
  EXPECT_EQ(two.in(kReady), "check 2/040c");
  EXPECT_EQ(two.in("25000000000000000000"), "check 2/040c");
  EXPECT_EQ(two.in("5e00000000000000ff00"), "check 2/040c");
  EXPECT_EQ(two.in("120000006000", 96), "good 96");
  EXPECT_EQ(two.in(kReport, 28), "good 28");

  auto all = two_groups();
  all[1].ports[0].is_offline = true;
  groups->set(all);
  hear_of_it();
  EXPECT_EQ(two.in(kReady), "check 2/0412");
  EXPECT_EQ(two.in(kReport, 28), "good 28");
  EXPECT_EQ(one.in(kReady), "good");
}

TEST_F(PortGroupsTest, AnInitiatorChangesThemAndTheOthersAreTold) {
  EXPECT_EQ(one.parameters(kSet12, "00000000 02000000 01000005"), "good");
  EXPECT_EQ(followed, "default_tg_pt_gp 2;other 1;");
  EXPECT_EQ(one.in(kReady), "check 2/040b");
  EXPECT_EQ(one.in(kReady, kMuch, NexusId{1}), "check 6/2a06");
  EXPECT_EQ(two.in(kReady), "check 6/2a06") << "the same number, at another unit";
  EXPECT_EQ(two.in(kReady), "good");
  EXPECT_EQ(one.data(kReport).substr(8, 16), "02cf000000010001");

  followed.clear();
  EXPECT_EQ(one.parameters(kSet8, "00000000 02000000"), "good") << "as it is";
  EXPECT_EQ(followed, "");
  EXPECT_EQ(two.in(kReady), "good");
  EXPECT_EQ(two.parameters(kSet4, "00000000"), "good");
}

TEST_F(PortGroupsTest, AllThatIsAskedForIsChangedOrNothing) {
  EXPECT_EQ(one.parameters(kSet12, "00000000 02000000 01000006"), "check 5/2600 p10");
  EXPECT_EQ(one.parameters(kSet12, "00000000 02000000 04000005"), "check 5/2600 p8.3");
  EXPECT_EQ(one.parameters(kSet12, "00000000 02000000 0e000005"), "check 5/2600 p8.3");
  EXPECT_EQ(one.parameters(kSet12, "00000000 02000000 0f000005"), "check 5/2600 p8.3");
  EXPECT_EQ(one.parameters(kSet8, "00000000 0200"), "check 5/1a00, out +2");
  EXPECT_EQ(one.parameters(kSet8, "000000"), "check 5/1a00, out +5");
  EXPECT_EQ(followed, "");
  EXPECT_EQ(one.in(kReady), "good");
  EXPECT_EQ(one.out(kSet8, 4), "check 5/2400 @6.7");
  EXPECT_EQ(one.out("a40a 00000000 00000000 0000", 0), "good");
}

TEST_F(PortGroupsTest, WhereStatesChangeImplicitlyNoInitiatorChangesThem) {
  auto all = two_groups();
  all[0].is_explicit = false;
  groups->set(all);
  EXPECT_EQ(one.parameters(kSet8, "00000000 02000000"), "check 5/2000");
  EXPECT_EQ(two.parameters(kSet8, "00000000 02000000"), "good");
  UnitBench without(captured());
  EXPECT_EQ(without.out(kSet8, 8), "check 5/2000");
}

TEST_F(PortGroupsTest, APortThatChangesItsGroupHasAnotherState) {
  set_state_of_two(AccessState::standby);
  hear_of_it();
  auto all = two_groups();
  all[1].state = AccessState::standby;
  all[1].ports.clear();
  all[0].ports.push_back({.port = 2});
  groups->set(all);
  hear_of_it();
  EXPECT_EQ(two.in(kReady), "good");
  groups->set(all);
  EXPECT_EQ(two.in(kReady), "good") << "nothing has changed";
}

}  // namespace
}  // namespace verbatim::ulp::scsi

#include "ulp/target/kept_reservations.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace verbatim::ulp::target {
namespace {

using scsi::ReservationType;

class KeptReservationsTest : public testing::Test {
 protected:
  KeptReservationsTest() { EXPECT_NE(mkdtemp(folder.data()), nullptr); }
  ~KeptReservationsTest() override { std::filesystem::remove_all(folder); }
  std::string folder = "/tmp/verbatim-kept.XXXXXX";
  std::string path = folder + "/reservations/42.json";
};

TEST_F(KeptReservationsTest, WhatWasKeptComesBack) {
  const scsi::Reservations::State state{
      .registrants = {{{.name = "iqn.a", .isid = 7, .target = "iqn.t,t,0x0001"}, 1},
                      {{.protocol = scsi::Protocol::srp, .name = std::string(32, 'a')}, ~0ull}},
      .type = ReservationType::write_exclusive,
      .holder = 1,
      .generation = 9};
  KeptReservations kept(path);
  ASSERT_TRUE(kept.keep(&state));
  scsi::Reservations reservations;
  KeptReservations::attach(path, reservations);
  EXPECT_EQ(reservations.state().registrants, state.registrants);
  EXPECT_EQ(reservations.state().type, state.type);
  EXPECT_EQ(reservations.state().holder, 1u);
  EXPECT_EQ(reservations.state().generation, 9u);
  EXPECT_TRUE(kept.keep(nullptr));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(KeptReservationsTest, WhatIsBrokenIsLeft) {
  for (const char* text :
       {"", "{", "[]", "{\"type\":1,\"holder\":3,\"generation\":0,\"registrants\":[]}"}) {
    std::filesystem::create_directories(folder + "/reservations");
    std::ofstream(path) << text;
    scsi::Reservations reservations;
    KeptReservations::attach(path, reservations);
    EXPECT_TRUE(reservations.state().registrants.empty()) << text;
    EXPECT_EQ(reservations.state().type, ReservationType::none) << text;
  }
}

TEST_F(KeptReservationsTest, AFolderThatCannotBeWrittenIsTold) {
  KeptReservations kept("/proc/none/42.json");
  const scsi::Reservations::State state;
  EXPECT_FALSE(kept.keep(&state));
}

TEST_F(KeptReservationsTest, ThoseOfNvmeComeBackByTheHostsIds) {
  const nvmeof::Reservations::State state{
      .registrants = {{{std::byte{0x0a}, std::byte{0xff}}, 1}, {{std::byte{2}}, ~0ull}},
      .type = nvmeof::ReservationType::exclusive_access_registrants_only,
      .holder = 1,
      .generation = 9};
  KeptNvmeReservations kept(path);
  ASSERT_TRUE(kept.keep(&state));
  nvmeof::Reservations reservations;
  KeptNvmeReservations::attach(path, reservations);
  EXPECT_TRUE(reservations.lasts());
  const auto report = reservations.report();
  EXPECT_EQ(report.generation, 9u);
  EXPECT_EQ(report.type, state.type);
  ASSERT_EQ(report.entries.size(), 2u);
  EXPECT_EQ(report.entries[0].host, state.registrants[0].host);
  EXPECT_EQ(report.entries[1].key, ~0ull);
  EXPECT_FALSE(report.entries[0].holds);
  EXPECT_TRUE(report.entries[1].holds);
  for (const char* const wrong :
       {"", "{}", R"({"generation":1,"type":9,"holder":0,"registrants":[]})",
        R"({"generation":1,"type":1,"holder":0,"registrants":[]})",
        R"({"generation":1,"type":1,"holder":0,)"
        R"("registrants":[{"key":1,"host":"zz"}]})"}) {
    std::ofstream(path) << wrong;
    nvmeof::Reservations none;
    KeptNvmeReservations::attach(path, none);
    EXPECT_FALSE(none.lasts()) << wrong;
    EXPECT_TRUE(none.report().entries.empty()) << wrong;
  }
}

}  // namespace
}  // namespace verbatim::ulp::target

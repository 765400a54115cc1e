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

}  // namespace
}  // namespace verbatim::ulp::target

#include "link/capture_file/capture_file.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::link {
namespace {

using wire::from_hex;
using wire::to_hex;

/// The specification's example of a local packet (IBA volume 1, section 7.8.1), and its ICRC.
constexpr std::string_view kPacket =
    "7012375c000e17d20a2024870087b1b3000dec2a01710a1c015d400238f27a050000000e"
    "bb884d85fd5cfba4728bc0690ed40000";
constexpr std::string_view kIcrc = "9625b75a";

/// The file with that packet, as digits. Links in shared memory leave its ICRC out.
std::string file_of(Remark remark, std::string_view icrc) {
  CaptureFile file("H1", "test");
  const auto packet = from_hex(std::string(kPacket) + std::string(icrc));
  file.add({.time = 3 * kSecond + kSecond / 2, .is_infiniband = true, .remark = remark}, packet);
  return to_hex(file.bytes());
}

TEST(CaptureFile, PacketsOfInfinibandGetTheirCrcs) {
  const std::string file = file_of(Remark::none, "00000000");
  // An ERF record: the time, type 21, the lengths of record and packet.
  const std::string erf =
      "0000008003000000"
      "1504"
      "004a"
      "0000"
      "003a";
  const std::size_t at = file.find(erf + std::string(kPacket) + std::string(kIcrc));
  ASSERT_NE(at, std::string::npos) << file;
  EXPECT_NE(file.find("c5000000"
                      "00000400"),
            std::string::npos);  // The link type.
}

TEST(CaptureFile, ADamagedPacketKeepsTheIcrcThatItWasSentWith) {
  EXPECT_NE(file_of(Remark::corrupted, "01020304").find("01020304"), std::string::npos);
  EXPECT_EQ(file_of(Remark::corrupted, "01020304").find(kIcrc), std::string::npos);
}

TEST(CaptureFile, APacketOnACableHasItsLaneAndItsPort) {
  CaptureFile file("fabric", "test");
  const auto packet = from_hex(std::string(kPacket) + "00000000");
  file.add_on_cable({.port = "S1/3", .lane = 2, .bytes = packet});
  const std::string text = to_hex(file.bytes());
  // The ICRC does not cover the lane.
  const std::string on_lane_2 = "2" + std::string(kPacket).substr(1) + std::string(kIcrc);
  EXPECT_NE(text.find(on_lane_2), std::string::npos);
  EXPECT_NE(text.find("53312f33"), std::string::npos);  // "S1/3".
  file.bytes().clear();
  file.add_on_cable({.port = "S1/3", .lane = 2, .is_damaged = true, .bytes = packet});
  EXPECT_EQ(to_hex(file.bytes()).find(on_lane_2), std::string::npos);
  EXPECT_NE(to_hex(file.bytes()).find(kIcrc), std::string::npos);
}

TEST(CaptureFile, WhatIsNoPacketStaysAsItIs) {
  CaptureFile file("H1", "test");
  file.add({.is_infiniband = true}, from_hex("7012375c"));
  EXPECT_NE(to_hex(file.bytes())
                .find("1504"
                      "0014"
                      "0000"
                      "0004"
                      "7012375c"),
            std::string::npos);
}

}  // namespace
}  // namespace verbatim::link

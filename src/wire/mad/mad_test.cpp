#include "wire/mad/mad.h"

#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

MadHeader every_field() {
  return {.management_class = MadClass::communication_management,
          .class_version = 2,
          .method = MadMethod::send,
          .status = 0x1122,
          .class_specific = 0x3344,
          .transaction = 0x5566778899aabbcc,
          .attribute = 0x0010,
          .modifier = 0xddeeff01};
}
constexpr const char* kGolden = "01070203112233445566778899aabbcc00100000ddeeff01";

std::vector<std::byte> mad(std::string_view header) {
  std::vector<std::byte> bytes = from_hex(header);
  bytes.resize(kMadBytes);
  return bytes;
}

TEST(MadHeader, GoldenBytes) { EXPECT_EQ(encoded_hex(every_field()), kGolden); }

TEST(MadHeader, DecodesWhatItEncodes) { EXPECT_EQ(decode_mad_header(mad(kGolden)), every_field()); }

TEST(MadHeader, AMadHas256Bytes) {
  std::vector<std::byte> bytes = mad(kGolden);
  bytes.pop_back();
  EXPECT_EQ(decode_mad_header(bytes).error(), WireError::mad_length);
  bytes.resize(kMadBytes + 1);
  EXPECT_EQ(decode_mad_header(bytes).error(), WireError::mad_length);
  EXPECT_EQ(decode_mad_header({}).error(), WireError::mad_length);
}

TEST(MadHeader, C13_4_OtherBaseVersionIsRefused) {
  auto bytes = mad(kGolden);
  bytes[0] = std::byte{2};
  EXPECT_EQ(decode_mad_header(bytes).error(), WireError::mad_version);
}

}  // namespace
}  // namespace verbatim::wire

#include <gtest/gtest.h>

#include "ulp/iscsi/md5.h"
#include "ulp/iscsi/wire/pdu.h"
#include "ulp/iscsi/wire/text.h"
#include "ulp/scsi/text_for_test.h"

namespace verbatim::ulp::iscsi {
namespace {

using scsi::bytes_of_hex;
using scsi::hex_of;

HeaderSpan header_of(const std::vector<std::byte>& bytes) {
  return HeaderSpan(bytes.data(), kHeaderBytes);
}

// Between Linux's initiator and its target, over iSER.
constexpr std::string_view kLogin =
    "43870000000001b800023d0000010000000000000000000000000000000000000000000000000000000000000000"
    "0000";
constexpr std::string_view kInquiry =
    "01c10000000000000000000000000000010000000000002400000000f69beb8e1200000024000000000000000000"
    "0000";
constexpr std::string_view kInquiryAnswer =
    "2180000000000000000000000000000001000000"
    "00000000f69beb8e0000000100000040000000000000000000000000";
constexpr std::string_view kWrite =
    "01a10000000010000000000000000000190000000000100000000018f69beba62a00000000080000080000000000"
    "0000";
constexpr std::string_view kLogout =
    "468000000000000000000000000000001a0000000000000000000019f69beba70000000000000000000000000000"
    "0000";
constexpr std::string_view kLogoutAnswer =
    "268000000000000000000000000000001a00000000000000f69beba7000000190000005800000000000000000000"
    "0000";

TEST(IscsiPdu, RequestsOfLinux) {
  for (const std::string_view hex : {kLogin, kInquiry, kWrite, kLogout}) {
    const auto bytes = bytes_of_hex(hex);
    const auto decoded = decode_request(header_of(bytes));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(hex_of(encode(*decoded)), hex);
  }
  const auto write = *decode_request(header_of(bytes_of_hex(kWrite)));
  EXPECT_EQ(write.opcode, Opcode::scsi_command);
  EXPECT_TRUE(write.has(kFinal) && write.has(kWrites) && !write.has(kReads));
  EXPECT_EQ(write.data_bytes, 4096u);
  EXPECT_EQ(write.expected_bytes(), 4096u);
  EXPECT_EQ(write.cmd_sn, 24u);
  const auto login = *decode_request(header_of(bytes_of_hex(kLogin)));
  EXPECT_TRUE(login.is_immediate && login.has(kFinal));
  EXPECT_EQ(login.current_stage(), 1);
  EXPECT_EQ(login.next_stage(), 3);
  EXPECT_EQ(login.lun >> 16, 0x00023d000001u);
}

TEST(IscsiPdu, ResponsesOfLinux) {
  for (const std::string_view hex : {kInquiryAnswer, kLogoutAnswer}) {
    const auto bytes = bytes_of_hex(hex);
    const auto decoded = decode_response(header_of(bytes));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(hex_of(encode(*decoded)), hex);
    EXPECT_GE(decoded->max_cmd_sn, decoded->exp_cmd_sn);
  }
}

TEST(IscsiPdu, UnknownOpcodesAreRefused) {
  std::vector<std::byte> bytes(kHeaderBytes);
  for (const unsigned opcode : {0x07u, 0x0fu, 0x11u, 0x20u, 0x3fu}) {
    bytes[0] = static_cast<std::byte>(opcode);
    EXPECT_EQ(decode_request(header_of(bytes)).error(), RejectReason::command_not_supported);
  }
}

TEST(IscsiText, Keys) {
  std::string text;
  add_key(text, "A", "1");
  add_key(text, "B", "x=y");
  const auto keys = *parse_keys(text);
  EXPECT_EQ(keys, (std::vector<Key>{{"A", "1"}, {"B", "x=y"}}));
  EXPECT_TRUE(parse_keys("A=1").has_value());  // Without its zero.
  EXPECT_EQ(parse_keys("A").error(), std::string("a key without '='"));
  EXPECT_FALSE(parse_keys("=1"));
  EXPECT_FALSE(parse_keys(std::string(kKeyBytesMax + 1, 'k') + "=1"));
  EXPECT_FALSE(parse_keys("k=" + std::string(kValueBytesMax + 1, 'v')));
  EXPECT_FALSE(parse_keys(std::string(kTextBytesMax + 1, '\0')));
  std::string many;
  for (std::size_t i = 0; i <= kKeysMax; ++i) add_key(many, "k" + std::to_string(i), "");
  EXPECT_FALSE(parse_keys(many));
}

TEST(IscsiText, Values) {
  EXPECT_EQ(parse_number("65536"), 65536u);
  EXPECT_EQ(parse_number("0x10"), 16u);
  for (const char* bad : {"", "0x", "12a", "-1", "4294967296"}) EXPECT_FALSE(parse_number(bad));
  EXPECT_EQ(hex_of(*parse_binary("0x0aff")), "0aff");
  EXPECT_EQ(hex_of(*parse_binary("0xaff")), "0aff");
  EXPECT_EQ(hex_of(*parse_binary("0bYWJj")), "616263");
  EXPECT_EQ(hex_of(*parse_binary("0bYWI=")), "6162");
  for (const char* bad : {"", "0x", "0xg", "1234", "0b*"}) EXPECT_FALSE(parse_binary(bad));
  EXPECT_TRUE(is_iscsi_name("iqn.2026-01.com.example:disk"));
  EXPECT_TRUE(is_iscsi_name("eui.0123456789abcdef"));
  EXPECT_TRUE(is_iscsi_name("naa.0123456789abcdef"));
  for (const char* bad : {"", "iqn.", "disk", "iqn.a b", "eui.0123", "naa.0123456789abcdeg"})
    EXPECT_FALSE(is_iscsi_name(bad)) << bad;
  EXPECT_FALSE(is_iscsi_name("iqn." + std::string(kNameBytesMax, 'a')));
}

TEST(Md5, OfRfc1321) {
  const auto hash = [](std::string_view text) {
    return hex_of(md5(std::as_bytes(std::span(text))));
  };
  EXPECT_EQ(hash(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hash("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(
      hash("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
      "57edf4a22be3c955ac49da2e2107b67a");
}

}  // namespace
}  // namespace verbatim::ulp::iscsi

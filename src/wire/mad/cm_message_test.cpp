#include "wire/mad/cm_message.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/cm_test_util.h"

namespace verbatim::wire {
namespace {

std::array<std::byte, kMadBytes> encoded(const CmMessage& message) {
  std::array<std::byte, kMadBytes> bytes;
  bytes.fill(std::byte{0xa5});  // A byte that `encode` does not write shows up.
  encode(CmMad{0x0102030405060708, message}, bytes);
  return bytes;
}

/// `body` gives the message's first bytes; `rest` further bytes follow, with values that count up
/// from `first`.
void expect_golden(const std::string& body, unsigned first, std::size_t rest,
                   const std::string& golden) {
  EXPECT_EQ(body.substr(0, body.size() - 2 * rest), golden);
  std::vector<std::byte> tail;
  for (std::size_t i = 0; i < rest; ++i) tail.push_back(static_cast<std::byte>(first + i));
  EXPECT_EQ(body.substr(body.size() - 2 * rest), to_hex(tail));
}

constexpr const char* kGid1 = "fd000000000000000000000000000001";
constexpr const char* kGid11 = "fd000000000000000000000000000011";
constexpr const char* kGid2 = "fd000000000000000000000000000002";
constexpr const char* kGid12 = "fd000000000000000000000000000012";
constexpr const char* kGid3 = "fd000000000000000000000000000003";
constexpr const char* kGid13 = "fd000000000000000000000000000013";

TEST(CmMessages, ReqGoldenBytes) {
  // 0x14<<3 | uc<<1 | 1, 0x15<<3 | 6; mtu 3<<4 | rdc 8 | 5, 13<<4 | srq 8; label<<12 | rate.
  const std::string path =
      "54321022"
      "9a40b898";
  expect_golden(encoded_hex(sample_req()), 0x80, 92,
                std::string("0102030400000000") + "0000000001061234" + "1112131415161718" +
                    "0000000021222324" + "31323334" + "00000035" + "000000a3" + "414243ae" +
                    "80013dd8" + "11012201" + kGid1 + kGid11 + path + "11022202" + kGid2 + kGid12 +
                    path);
}

TEST(CmMessages, XrcStandsInTheExtendedTransportType) {
  CmReq req = sample_req();
  req.transport = CmTransport::xrc;
  const std::string body = encoded_hex(req);
  EXPECT_EQ(body.substr(2 * 43, 2), "a7");  // 0x14<<3 | 3<<1 | 1
  EXPECT_EQ(body.substr(2 * 51, 2), "d9");  // 13<<4 | srq 8 | 1
  EXPECT_EQ(decode_cm_req(CmBody(from_hex(body))).transport, CmTransport::xrc);
}

TEST(CmMessages, MraGoldenBytes) {
  expect_golden(encoded_hex(sample_mra()), 0x10, 222, "010203040506070840b0");
}
TEST(CmMessages, RejGoldenBytes) {
  std::vector<std::byte> info(72);
  for (unsigned i = 0; i < 72; ++i) info[i] = static_cast<std::byte>(0x20 + i);
  expect_golden(encoded_hex(sample_rej()), 0x90, 148, "01020304050607088090000a" + to_hex(info));
}
TEST(CmMessages, RepGoldenBytes) {
  expect_golden(encoded_hex(sample_rep()), 0x30, 196,
                "01020304050607082122232431323300343536004142430044457dd01112131415161718");
}
TEST(CmMessages, RtuDreqDrepGoldenBytes) {
  expect_golden(encoded_hex(sample_rtu()), 1, 224, "0102030405060708");
  expect_golden(encoded_hex(sample_dreq()), 2, 220, "010203040506070861626300");
  expect_golden(encoded_hex(sample_drep()), 3, 224, "0102030405060708");
}
TEST(CmMessages, SidrGoldenBytes) {
  expect_golden(encoded_hex(sample_sidr_req()), 4, 216, "01020304800200000000000001114321");
  const std::string reply = encoded_hex(sample_sidr_rep());
  EXPECT_EQ(reply.substr(0, 48), "010203040247000071727300000000000111432181828384");
  EXPECT_EQ(reply.substr(48, 4), "0506");
  EXPECT_EQ(reply.substr(2 * 96, 4), "0607");
}
TEST(CmMessages, LapAndAprGoldenBytes) {
  expect_golden(encoded_hex(sample_lap()), 7, 168,
                std::string("0102030405060708") + "00000000" + "616263b8" + "00000000" +
                    "11032203" + kGid3 + kGid13 + "5432109a" + "4022b898");
  const std::string apr = encoded_hex(sample_apr());
  EXPECT_EQ(apr.substr(0, 24), "010203040506070846020000");
  EXPECT_EQ(apr.substr(24, 4), "0809");
  EXPECT_EQ(apr.substr(2 * 84, 4), "090a");
}

TEST(CmMessages, EachHasItsAttribute) {
  std::uint16_t attribute = 0x10;
  for (const CmMessage& message : sample_messages()) {
    const auto header = decode_mad_header(encoded(message));
    ASSERT_TRUE(header);
    EXPECT_EQ(header->attribute, attribute++) << name_of(message);
    EXPECT_EQ(header->management_class, MadClass::communication_management);
    EXPECT_EQ(header->class_version, 2);
    EXPECT_EQ(header->method, MadMethod::send);
  }
  // IBA table 105 and Linux's ib_cm agree on these.
  EXPECT_STREQ(name_of(CmRep{}), "REP");
  EXPECT_EQ(CmMessage(CmRep{}).index() + 0x10, 0x13u);
  EXPECT_EQ(CmMessage(CmSidrReq{}).index() + 0x10, 0x17u);
  EXPECT_EQ(CmMessage(CmLap{}).index() + 0x10, 0x19u);
}

TEST(CmMessages, DecodeWhatTheyEncode) {
  for (const CmMessage& message : sample_messages()) {
    const auto decoded = decode_cm(encoded(message));
    ASSERT_TRUE(decoded) << name_of(message);
    EXPECT_EQ(decoded->transaction, 0x0102030405060708u);
    EXPECT_EQ(decoded->message, message) << name_of(message);
  }
}

TEST(CmMessages, WhatIsNoneOfThemIsRefused) {
  auto bytes = encoded(sample_req());
  const auto error_with = [&bytes](std::size_t at, unsigned value) {
    auto damaged = bytes;
    damaged[at] = static_cast<std::byte>(value);
    return decode_cm(damaged).error();
  };
  EXPECT_EQ(error_with(0, 2), WireError::mad_version);
  EXPECT_EQ(error_with(1, 3), WireError::mad_class);
  EXPECT_EQ(error_with(2, 1), WireError::mad_class);
  EXPECT_EQ(error_with(3, 1), WireError::mad_attribute);
  EXPECT_EQ(error_with(17, 0x0f), WireError::mad_attribute);
  EXPECT_EQ(error_with(17, 0x1b), WireError::mad_attribute);
  EXPECT_EQ(decode_cm(ByteSpan(bytes).first(255)).error(), WireError::mad_length);
}

TEST(CmMessages, ReservedBytesAreIgnored) {
  for (const CmMessage& message : sample_messages()) {
    auto bytes = encoded(message);
    for (std::size_t i = MadHeader::kSize; i < bytes.size(); ++i) bytes[i] = std::byte{0xff};
    const auto decoded = decode_cm(bytes);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decode_cm(encoded(decoded->message))->message, decoded->message) << name_of(message);
  }
}

}  // namespace
}  // namespace verbatim::wire

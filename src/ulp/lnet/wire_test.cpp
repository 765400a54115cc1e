#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/lnet/wire/message.h"
#include "ulp/lnet/wire/ping_info.h"
#include "ulp/lnet/wire/test_message.h"

/// Bytes that two kernels have exchanged (ko2iblnd and lnet_selftest of Lustre 2.17, Linux 6.1).
namespace verbatim::ulp::lnet {
namespace {

std::vector<std::byte> bytes_of_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}
std::string hex_of(ByteSpan bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  return hex;
}

constexpr std::string_view kConnect =
    "911be90b1200c0003800000000000000"
    "03004e0a0000050082ca085f00610600"
    "02004e0a000005000000000000000000"
    "0800010100100000";
/// A message of 10.78.0.3 with this body.
std::string message_of(std::string_view kind, std::string_view length, std::string_view body) {
  return fmt::format(
      "911be90b1200{}00{}0000000003004e0a0000050082ca085f0061060002004e0a000005000100000000000000{"
      "}",
      kind, length, body);
}

constexpr std::string_view kPutHeader =
    "03004e0a0000050002004e0a0000050039300000393000000100000000000100"
    "ffffffffffffffffffffffffffffffff0e0000000000d437000000000000000034000000"
    "00000000";
constexpr std::string_view kGetHeader =
    "03004e0a0000050002004e0a0000050039300000393000000200000000000000"
    "5525a3ba72e9ea183928000000000000120000000000d437340000000000000000000100"
    "00000000";

TEST(LnetWire, Nids) {
  const Nid nid{0x000500000a4e0003};
  EXPECT_EQ(text_of(nid), "10.78.0.3@o2ib");
  EXPECT_EQ(parse_nid("10.78.0.3@o2ib"), nid);
  EXPECT_EQ(parse_nid("10.78.0.3"), nid);
  EXPECT_EQ(parse_nid("10.78.0.3@o2ib0"), nid);
  EXPECT_EQ(text_of(Nid{0x000500070a4e0003}), "10.78.0.3@o2ib7");
  EXPECT_EQ(text_of(kLoopbackNid), "0@lo");
  EXPECT_EQ(address_of(nid, 987).text(), "10.78.0.3:987");
  for (const auto* const bad : {"", "@o2ib", "10.78.0.3@", "10.78.0.3@tcp", "10.78.0.3@o2ibx",
                                "fe80::1@o2ib", "10.78.0.3@o2ib65536", "10.78.0@o2ib1 "})
    EXPECT_FALSE(parse_nid(bad)) << bad;
}

TEST(LnetWire, ARequestForAConnection) {
  const auto bytes = bytes_of_hex(kConnect);
  const auto decoded = decode_message(bytes);
  ASSERT_TRUE(decoded) << text_of(decoded.error());
  EXPECT_EQ(decoded->kind, MessageKind::connect);
  EXPECT_EQ(text_of(decoded->ends.source), "10.78.0.3@o2ib");
  EXPECT_EQ(text_of(decoded->ends.destination), "10.78.0.2@o2ib");
  EXPECT_EQ(decoded->ends.source_stamp, 0x000661005f08ca82u);
  EXPECT_EQ(decoded->sizes, (ConnectionSizes{8, 257, 4096}));
  std::array<std::byte, kMessageBytes> out{};
  EXPECT_EQ(hex_of(ByteSpan(out).first(encode(*decoded, out))), kConnect);
  // In private data of RoCE, zeros follow.
  auto longer = bytes;
  longer.resize(196);
  EXPECT_TRUE(decode_message(longer));
}

/// The kinds of messages as captured: each is decoded, and encoded to the same bytes.
TEST(LnetWire, MessagesOfLinux) {
  struct Captured {
    std::string hex, text;
  };
  const Captured all[] = {
      {message_of("d0", "30000000", ""), "noop"},
      {message_of("d2", "80000000", std::string(kPutHeader) + "0800000000000000"),
       "put_request 65536 bytes portal 52 bits 37d400000000000e cookie 8"},
      {message_of("d4", "54000000",
                  "08000000000000002000000000000000a01b0000010000000000010000705edd61ba1aff"),
       "put_accepted 8 20 key 1ba0 65536 at ff1aba61dd5e7000"},
      {message_of("d5", "3c000000", "200000000000000000000100"), "put_done 20 65536"},
      {message_of(
           "d6", "94000000",
           std::string(kGetHeader) + "0a000000000000003f0c00000100000000000100008033d907b930ff"),
       "get_request 65536 bytes portal 52 bits 37d4000000000012 cookie a key c3f 65536 at "
       "ff30b907d9338000"},
      {message_of("d7", "3c000000", "0a0000000000000000000100"), "get_done a 65536"},
  };
  for (const Captured& captured : all) {
    const auto bytes = bytes_of_hex(captured.hex);
    const auto decoded = decode_message(bytes);
    ASSERT_TRUE(decoded) << captured.text << ": " << text_of(decoded.error());
    const Message& one = *decoded;
    const Fragment memory = one.fragments.size() == 1 ? one.fragments[0] : Fragment{};
    const auto place =
        fmt::format("key {:x} {} at {:x}", one.fragments.key, memory.bytes, memory.address);
    const auto of_header = [&](std::uint32_t count) {
      return fmt::format("{} bytes portal {} bits {:x} cookie {:x}", count, one.header.portal,
                         one.header.match_bits, one.cookie);
    };
    std::string text = "noop";
    if (one.kind == MessageKind::put_request)
      text = "put_request " + of_header(one.header.payload_bytes);
    if (one.kind == MessageKind::put_accepted)
      text = fmt::format("put_accepted {:x} {:x} {}", one.cookie, one.sink_cookie, place);
    if (one.kind == MessageKind::put_done)
      text = fmt::format("put_done {:x} {}", one.cookie, one.status);
    if (one.kind == MessageKind::get_request)
      text = "get_request " + of_header(one.header.bytes) + " " + place;
    if (one.kind == MessageKind::get_done)
      text = fmt::format("get_done {:x} {}", one.cookie, one.status);
    EXPECT_EQ(text, captured.text);
    std::array<std::byte, kMessageBytes> out{};
    const std::size_t length = encode(one, out, one.fragments.key, memory);
    EXPECT_EQ(hex_of(ByteSpan(out).first(length)), captured.hex);
  }
}

TEST(LnetWire, APingAndItsAnswer) {
  const std::string get =
      "02004e0a0000050003004e0a0000050039300000393000000200000000000000"
      "928fe03973e9ea18091c00000000000000000000000000800000000000000000780f0000"
      "00000000";
  const auto ping = decode_message(bytes_of_hex(message_of("d1", "78000000", get)));
  ASSERT_TRUE(ping);
  EXPECT_EQ(ping->header.operation, Operation::get);
  EXPECT_EQ(ping->header.portal, kReservedPortal);
  EXPECT_EQ(ping->header.match_bits, kPingBits);
  EXPECT_EQ(ping->header.bytes, kPingBytesMax);
  EXPECT_EQ(ping->header.handle, (Handle{0x18eae97339e08f92, 0x1c09}));

  const std::string_view answer =
      "676e69701e00000039300000020000000000000000000900010000000000000002004e0a00000500dec0aa15"
      "00000000";
  const auto info = decode_ping_info(bytes_of_hex(answer));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->features, 0x1eu);
  ASSERT_EQ(info->ends.size(), 2u);
  EXPECT_EQ(info->ends[0].nid, kLoopbackNid);
  EXPECT_EQ(text_of(info->ends[1].nid), "10.78.0.2@o2ib");
  EXPECT_TRUE(info->ends[1].is_up);
  EXPECT_EQ(hex_of(encode(*info)), answer);
  EXPECT_FALSE(decode_ping_info(bytes_of_hex("676e6970")));
}

TEST(LnetWire, StatisticsLieWhereLstReadsThem) {
  TestMessage answer(answer_to(TestKind::statistics));
  answer.set_statistics({1, 2, 3, 4, 5, {6, 7, 8, 9, 0x1000000000a, 11, 12, 13}});
  EXPECT_EQ(hex_of(answer.bytes()).substr(48),
            "00000000"
            "00000000000000000000000000000000"
            "01000000"
            "00000000"
            "00000000"
            "02000000"
            "00000000"
            "00000000"
            "00000000"
            "03000000"
            "00000000"
            "00000000"
            "0400000000000000"
            "0500000000000000"
            "00000000"
            "00000000"
            "00000000"
            "06000000"
            "07000000"
            "08000000"
            "09000000"
            "0a00000000010000"
            "0b00000000000000"
            "0c00000000000000"
            "0d00000000000000");
}

TEST(LnetWire, SelfTestsOfLinux) {
  const auto padded = [](std::string hex) {
    hex.resize(2 * TestMessage::kSize, '0');
    return bytes_of_hex(hex);
  };
  const auto make = TestMessage::decode(padded(
      "0df0b0ee0100000000000000000000000000000001000000010000000000d43703004e0a00000500ae3300"
      "0000000000"));
  ASSERT_TRUE(make);
  EXPECT_EQ(make->kind(), TestKind::make_session);
  EXPECT_EQ(make->answer_bits(), 0x37d4000000000001u);
  EXPECT_EQ(make->session(), (TestSession{0x000500000a4e0003, 0x33ae}));

  TestMessage made(answer_to(TestKind::make_session));
  made.set_answer_session(make->session());
  made.set_timeout(100);
  EXPECT_EQ(hex_of(made.bytes()),
            hex_of(padded("0df0b0ee010000000100000000000000000000000100000000000000"
                          "03004e0a00000500ae3300000000000064000000")));

  const auto test = TestMessage::decode(
      padded("0df0b0ee0100000008000000000000000000000001000000030000000000d4370000000000000000"
             "03004e0a00000500ae3300000000000002000000000000000b0000000200000002000000"
             "000001000000010001000000010000000000"));
  ASSERT_TRUE(test);
  EXPECT_EQ(test->kind(), TestKind::test);
  EXPECT_EQ(test->session(), make->session());
  EXPECT_FALSE(test->is_for_client());

  const auto bulk = TestMessage::decode(
      padded("0df0b0ee010000000c0000000000000000000000010000000d0000000000d4370e0000000000d437"
             "010000000000010001000000"));
  ASSERT_TRUE(bulk);
  const BulkRequest request{0x37d400000000000d, 0x37d400000000000e, BulkKind::read, 65536,
                            BulkCheck::none};
  EXPECT_EQ(bulk->bulk(), request);
  TestMessage own(TestKind::bulk);
  own.set_bulk(request);
  EXPECT_EQ(hex_of(own.bytes()), hex_of(bulk->bytes()));

  TestMessage pinged(answer_to(TestKind::ping));
  pinged.set_answer_ping(1);
  EXPECT_EQ(hex_of(pinged.bytes()),
            hex_of(padded("0df0b0ee010000000f00000000000000000000000100000000000000cefabeba010000"
                          "00")));
}

TEST(LnetWire, BulksAreCheckedWhereTheyAreFilled) {
  for (const auto check : {BulkCheck::none, BulkCheck::simple, BulkCheck::full}) {
    std::vector<std::byte> bytes(3 * 4096);
    fill_bulk(check, bytes);
    EXPECT_TRUE(is_bulk_right(check, bytes));
    bytes[2 * 4096 - 1] ^= std::byte{1};
    EXPECT_EQ(is_bulk_right(check, bytes), check == BulkCheck::none);
    bytes[2 * 4096 - 1] ^= std::byte{1};
    bytes[4096 + 800] ^= std::byte{1};
    EXPECT_EQ(is_bulk_right(check, bytes), check != BulkCheck::full);
  }
}

/// Whoever writes big-endian is understood: all but LNet's header is turned.
TEST(LnetWire, APeerOfTheOtherByteOrder) {
  const auto decoded =
      decode_message(bytes_of_hex("0be91b910012d50500000003c0000000"
                                  "000500000a4e00030006610000000001000500000a4e00020000000000000001"
                                  "00000000000000200001"));
  EXPECT_FALSE(decoded);
  const auto done =
      decode_message(bytes_of_hex("0be91b910012d5050000003c00000000"
                                  "000500000a4e00030006610000000001000500000a4e00020000000000000001"
                                  "000000000000002000010000"));
  ASSERT_TRUE(done) << text_of(done.error());
  EXPECT_EQ(done->credits, 5);
  EXPECT_EQ(text_of(done->ends.source), "10.78.0.3@o2ib");
  EXPECT_EQ(done->cookie, 0x20u);
  EXPECT_EQ(done->status, 65536);
}

TEST(LnetWire, WhatIsNoMessage) {
  const auto fault_of = [](std::vector<std::byte> bytes, std::size_t at, int value) {
    if (at < bytes.size()) bytes[at] = static_cast<std::byte>(value);
    const auto decoded = decode_message(bytes);
    return decoded ? "none" : text_of(decoded.error());
  };
  const auto good = bytes_of_hex(kConnect);
  EXPECT_STREQ(fault_of(good, good.size(), 0), "none");
  EXPECT_STREQ(fault_of({good.begin(), good.begin() + 47}, 48, 0), "a message is too short");
  EXPECT_STREQ(fault_of(good, 0, 0), "a message has not LNet's magic number");
  EXPECT_STREQ(fault_of(good, 4, 0x11), "a message is of another version than 0x12");
  EXPECT_STREQ(fault_of(good, 6, 0xee), "a message is of no kind that we know");
  EXPECT_STREQ(fault_of(good, 8, 0x39), "a message's length is wrong");
  EXPECT_STREQ(fault_of(good, 8, 0x37), "a message's length is wrong");
  EXPECT_STREQ(fault_of(good, 12, 1), "a message's checksum is wrong");
  const auto get = bytes_of_hex(message_of(
      "d6", "94000000",
      std::string(kGetHeader) + "0a000000000000003f0c00000100000000000100008033d907b930ff"));
  EXPECT_STREQ(fault_of(get, 132, 2), "a message's length is wrong");
  EXPECT_STREQ(fault_of(get, 135, 0xff), "a message's length is wrong");
}

TEST(LnetWire, Refusals) {
  const Refusal refusal{Why::depth, 7, {4, 16, 4096}};
  const auto data = encode(refusal);
  EXPECT_EQ(decode_refusal(ByteSpan(data.begin(), data.size())), refusal);
  EXPECT_FALSE(decode_refusal({}));
  EXPECT_FALSE(decode_refusal(std::array<std::byte, 148>{}));
}

}  // namespace
}  // namespace verbatim::ulp::lnet

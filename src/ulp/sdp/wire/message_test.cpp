#include "ulp/sdp/wire/message.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/sdp/wire/hello.h"

namespace verbatim::ulp::sdp {
namespace {

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    if (hex[i] == ' ') continue;
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    ++i;
  }
  return bytes;
}

std::string hex_of(ByteSpan bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

/// Golden messages: each field at its place (IBA A4.4).
struct Golden {
  std::string_view hex;
  Header header;
  Body body;
};
const std::vector<Golden> kGolden = {
    {"ff 01 0040 00000013 00000007 00000005",
     {.mid = Mid::data,
      .has_urgent = true,
      .buffers = 64,
      .length = 19,
      .sequence = 7,
      .acknowledged = 5},
     {}},
    {"ff 06 0001 00000010 ffffffff 80000000",
     {.mid = Mid::data,
      .urgent_pending = true,
      .wants_pipeline = true,
      .buffers = 1,
      .sequence = 0xffffffff,
      .acknowledged = 0x80000000},
     {}},
    {"02 00 003f 00000010 00000001 00000000",
     {.mid = Mid::disconnect, .buffers = 63, .sequence = 1},
     {}},
    {"03 00 003f 00000010 00000002 00000000",
     {.mid = Mid::abort, .buffers = 63, .sequence = 2},
     {}},
    {"04 00 003f 00000010 00000003 00000000",
     {.mid = Mid::send_mode, .buffers = 63, .sequence = 3},
     {}},
    {"05 00 0003 00000014 00000004 00000000 00010000",
     {.mid = Mid::write_done, .buffers = 3, .length = 20, .sequence = 4},
     Moved{0x10000}},
    {"06 00 0003 00000014 00000004 00000000 00020000",
     {.mid = Mid::read_done, .buffers = 3, .length = 20, .sequence = 4},
     Moved{0x20000}},
    {"07 00 0003 00000014 00000004 00000000 90000000",
     {.mid = Mid::mode_change, .buffers = 3, .length = 20, .sequence = 4},
     Mode{9}},
    {"0b 00 0003 00000014 00000004 00000000 00008000",
     {.mid = Mid::buffer_change, .buffers = 3, .length = 20, .sequence = 4},
     BufferSize{32768}},
    {"fe 00 0003 00000021 00000004 00000000 00100000 0000abcd 00007fff12345678",
     {.mid = Mid::source_available, .buffers = 3, .length = 33, .sequence = 4},
     SourceAvailable{.bytes = 1 << 20, .key = MemoryKey{0xabcd}, .address = 0x7fff12345678}},
    {"fd 00 0003 00000024 00000004 00000000 00100000 0000abcd 00007fff12345678 00000002",
     {.mid = Mid::sink_available, .buffers = 3, .length = 36, .sequence = 4},
     SinkAvailable{
         .bytes = 1 << 20, .key = MemoryKey{0xabcd}, .address = 0x7fff12345678, .non_discards = 2}},
};

TEST(SdpMessage, GoldenBytesBothWays) {
  for (const Golden& golden : kGolden) {
    std::vector<std::byte> bytes = bytes_of(golden.hex);
    std::array<std::byte, kMostHead> own{};
    const std::size_t head = encode(golden.header, golden.body, own);
    EXPECT_EQ(hex_of(std::span(own).first(head)), hex_of(bytes));
    bytes.resize(golden.header.length, std::byte{0x61});  // The data.
    const auto message = decode_message(bytes);
    ASSERT_TRUE(message) << golden.hex;
    EXPECT_EQ(message->header, golden.header);
    EXPECT_EQ(message->body, golden.body);
    EXPECT_EQ(message->data.size(), golden.header.length - head);
  }
}

TEST(SdpMessage, OtherLengthsAreRefused) {
  for (const Golden& golden : kGolden) {
    std::vector<std::byte> bytes = bytes_of(golden.hex);
    bytes.resize(golden.header.length);
    bytes.push_back({});  // The header says one less.
    EXPECT_EQ(decode_message(bytes).error(), WireError::wrong_length) << golden.hex;
    bytes.resize(15);
    EXPECT_EQ(decode_message(bytes).error(), WireError::too_short) << golden.hex;
  }
  EXPECT_EQ(decode_message(bytes_of("02 00 003f 00000011 00000001 00000000 00")).error(),
            WireError::wrong_length);
  EXPECT_EQ(decode_message(bytes_of("0f 00 003f 00000010 00000001 00000000")).error(),
            WireError::unknown_message);
}

constexpr std::string_view kHello =
    "00 00 0040 0000005c 00000000 00000000 22 40 00 01 00008000 00008000 c001 0000"
    "000000000000000000000000 0a4e0001 000000000000000000000000 0a4e0002"
    "00000000000000000000000000000000000000000000000000000000";

TEST(SdpHello, GoldenBytesBothWays) {
  Hello hello{.buffers = 64, .wanted_bytes = 32768, .own_bytes = 32768, .source_port = 0xc001};
  const auto store = [](IpBytes& ip, std::uint8_t last) {
    ip[12] = std::byte{10};
    ip[13] = std::byte{78};
    ip[15] = std::byte{last};
  };
  store(hello.source, 1);
  store(hello.destination, 2);
  std::array<std::byte, Hello::kSize> bytes{};
  encode(hello, bytes);
  EXPECT_EQ(hex_of(bytes), hex_of(bytes_of(kHello)));
  EXPECT_EQ(decode_hello(bytes).value(), hello);

  const HelloAck ack{.buffers = 32, .own_bytes = 65536};
  std::array<std::byte, HelloAck::kSize> answer{};
  encode(ack, answer);
  EXPECT_EQ(hex_of(std::span(answer).first(28)),
            "01000020000000c40000000000000000"
            "22400001"
            "00010000"
            "00000000");
  EXPECT_EQ(decode_hello_ack(answer).value(), ack);
}

TEST(SdpHello, OthersAreRefused) {
  const auto with = [](std::size_t at, int value) {
    auto bytes = bytes_of(kHello);
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_EQ(decode_hello(with(16, 0x12)).error(), WireError::wrong_version);
  EXPECT_EQ(decode_hello(with(17, 0x50)).error(), WireError::wrong_version);
  EXPECT_EQ(decode_hello(with(19, 0)).error(), WireError::no_adverts);
  EXPECT_EQ(decode_hello(with(0, 1)).error(), WireError::unknown_message);
  EXPECT_EQ(decode_hello(with(7, 0x5b)).error(), WireError::wrong_length);
  EXPECT_EQ(decode_hello(ByteSpan(bytes_of(kHello)).first(91)).error(), WireError::too_short);
}

}  // namespace
}  // namespace verbatim::ulp::sdp

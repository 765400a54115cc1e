#include "fabric/protocol/decode.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric::protocol {
namespace {

std::vector<std::byte> bytes_of(const SentMad& message, std::size_t datagram) {
  const auto head = std::as_bytes(std::span(&message, 1));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.resize(bytes.size() + datagram);
  return bytes;
}

int mad_error(const SentMad& message, std::size_t datagram) {
  const auto mad = decode_mad(bytes_of(message, datagram), MessageType::sent_mad);
  return mad ? 0 : mad.error().code;
}

TEST(FabricMessages, AMessageIsWhatItSays) {
  OpenPort open{.port = 2};
  put_text(open.host, "H1");
  const auto bytes = std::as_bytes(std::span(&open, 1));
  const auto decoded = decode<OpenPort>(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(text_of(decoded->host), "H1");
  EXPECT_EQ(decode<IssmRequest>(bytes).error().code, EPROTO);
  EXPECT_EQ(decode<OpenPort>(bytes.first(bytes.size() - 1)).error().code, EPROTO);
  EXPECT_EQ(type_of(bytes.first(3)).error().code, EPROTO);
  open.header.version = kVersion + 1;
  EXPECT_EQ(decode<OpenPort>(bytes).error().code, EPROTONOSUPPORT);
  open.header.magic = 0;
  EXPECT_EQ(decode<OpenPort>(bytes).error().code, EPROTO);
}

TEST(FabricMessages, DatagramHasTheLengthThatItsRecordSays) {
  SentMad message;
  message.record.length = 256;
  EXPECT_EQ(mad_error(message, 256), 0);
  EXPECT_EQ(mad_error(message, 255), EPROTO);
  EXPECT_EQ(mad_error(message, 257), EPROTO);
  EXPECT_EQ(mad_error(message, 0), EPROTO);
}

TEST(FabricMessages, LongDatagramIsNotInTheMessage) {
  SentMad message;
  message.record.length = kInlineBytes + 1;
  EXPECT_EQ(mad_error(message, 0), 0);
  EXPECT_EQ(mad_error(message, 1), EPROTO);
  message.record.length = kMadBytesMax + 1;
  EXPECT_EQ(mad_error(message, 0), EPROTO);
}

TEST(FabricMessages, NumbersAreInTheirRange) {
  SentMad message;
  message.record.agent = kAgentsMax;
  EXPECT_EQ(mad_error(message, 0), EPROTO);
  message.record.agent = 0;
  message.record.address.service_level = 16;
  EXPECT_EQ(mad_error(message, 0), EPROTO);
}

TEST(FabricMessages, TextsAreCutAndEnd) {
  std::array<char, 4> field{};
  put_text(field, "abcdef");
  EXPECT_EQ(text_of(field), "abc");
  field = {'a', 'b', 'c', 'd'};
  EXPECT_EQ(text_of(field), "abcd");
}

}  // namespace
}  // namespace verbatim::fabric::protocol

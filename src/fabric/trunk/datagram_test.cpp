#include "fabric/trunk/datagram.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric::trunk {
namespace {

std::vector<std::byte> bytes_of(const Datagram& datagram) {
  std::vector<std::byte> bytes(kDatagramBytesMax);
  bytes.resize(encode(datagram, bytes));
  return bytes;
}

constexpr Hello kHello{.from = 0x0102'0304'0506'0708,
                       .node_guid = 0x0200'0000'0020'0000,
                       .port = 36,
                       .offer = {.width = LinkWidth::x4,
                                 .speed = LinkSpeed::hdr,
                                 .width_enabled = 3,
                                 .speed_enabled = 7,
                                 .speed_extended_enabled = 1,
                                 .speed_extended2_enabled = 2}};

TEST(TrunkDatagram, HelloAsBytes) {
  const auto bytes = bytes_of({.to = 9, .body = kHello});
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr auto kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  EXPECT_EQ(text.substr(0, text.size() - 8),
            "5662546b01010000"
            "0000000000000009"
            "0102030405060708"
            "0200000000200000"
            "24"
            "0206"
            "03070102");
}

TEST(TrunkDatagram, ReadsWhatItHasWritten) {
  const auto hello = decode(bytes_of({.to = 0, .body = kHello}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(std::get<Hello>(hello->body), kHello);

  Status status{.next = 0xffff'ffff, .is_gap = true};
  for (std::uint32_t lane = 0; lane < kDataLanes; ++lane) status.limits[lane] = lane << 20;
  const auto read = decode(bytes_of({.to = 7, .body = status}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->to, 7u);
  EXPECT_EQ(std::get<Status>(read->body), status);

  EXPECT_TRUE(std::holds_alternative<Bye>(decode(bytes_of({.to = 7, .body = Bye{}}))->body));

  const std::vector<std::byte> sent(kPacketBytesMax, std::byte{0x5a});
  for (const bool is_management : {false, true}) {
    const auto bytes = bytes_of(
        {.to = 7, .body = Packet{.sequence = 5, .is_management = is_management, .bytes = sent}});
    EXPECT_EQ(bytes.size(), kDatagramBytesMax);
    const auto packet = decode(bytes);
    ASSERT_TRUE(packet);
    const auto& body = std::get<Packet>(packet->body);
    EXPECT_EQ(body.sequence, 5u);
    EXPECT_EQ(body.is_management, is_management);
    EXPECT_TRUE(std::ranges::equal(body.bytes, sent));
  }
}

TEST(TrunkDatagram, EveryDamagedOrShortOneIsRefused) {
  const std::vector<std::byte> sent(60, std::byte{1});
  for (const Datagram& datagram :
       {Datagram{.to = 1, .body = kHello}, Datagram{.to = 1, .body = Status{}},
        Datagram{.to = 1, .body = Packet{.bytes = sent}}}) {
    const auto bytes = bytes_of(datagram);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      auto damaged = bytes;
      damaged[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
      EXPECT_FALSE(decode(damaged)) << bit;
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::vector(bytes.begin(), bytes.begin() + std::ptrdiff_t(size))));
    }
  }
}

TEST(TrunkDatagram, AHelloWithoutASessionOrARateIsRefused) {
  Hello hello = kHello;
  hello.from = 0;
  EXPECT_FALSE(decode(bytes_of({.body = hello})));
  hello = kHello;
  hello.offer.width = static_cast<LinkWidth>(3);
  EXPECT_FALSE(decode(bytes_of({.body = hello})));
  hello = kHello;
  hello.offer.speed = static_cast<LinkSpeed>(kLinkSpeeds.size());
  EXPECT_FALSE(decode(bytes_of({.body = hello})));
}

}  // namespace
}  // namespace verbatim::fabric::trunk

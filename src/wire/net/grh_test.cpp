#include "wire/net/grh.h"

#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

constexpr Gid kA{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
constexpr Gid kB{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16}};

const Grh kSample{.traffic_class = 0xab,
                  .flow_label = 0xcdef1,
                  .payload_length = 0x0102,
                  .hop_limit = 0xff,
                  .source = kA,
                  .destination = kB};
constexpr const char* kGolden =
    "6abcdef101021bfffe800000000000000102030405060708fe80000000000000090a0b0c0d0e0f10";

TEST(Grh, GoldenBytes) {
  EXPECT_EQ(encoded_hex(kSample), kGolden);
  EXPECT_EQ(decode_grh(from_hex(kGolden)), kSample);
}

TEST(Grh, ShortOrOtherVersionIsRefused) {
  auto bytes = from_hex(kGolden);
  EXPECT_EQ(decode_grh(ByteSpan(bytes).first(39)).error(), WireError::too_short);
  bytes[0] = std::byte{0x45};
  EXPECT_EQ(decode_grh(bytes).error(), WireError::ip_version);
}

TEST(Grh, APacketEndsWhereItsGrhSays) {
  std::vector<std::byte> frame(Grh::kSize + 20);
  const auto encode_length = [&](std::uint16_t length, std::uint8_t next) {
    encode({.payload_length = length, .next_header = next}, std::span(frame).first<Grh::kSize>());
  };
  encode_length(16, Grh::kNextIba);  // Ethernet has padded it.
  const auto found = decode_grh_packet(frame);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->packet.size(), 16u);
  EXPECT_EQ(found->packet.data(), frame.data() + Grh::kSize);
  encode_length(21, Grh::kNextIba);
  EXPECT_FALSE(decode_grh_packet(frame));
  encode_length(16, 17);
  EXPECT_FALSE(decode_grh_packet(frame));
  EXPECT_FALSE(decode_grh_packet(std::span(frame).first(Grh::kSize - 1)));
}

}  // namespace
}  // namespace verbatim::wire

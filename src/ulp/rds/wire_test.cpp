// Bytes that were captured between two kernels (Linux 6.1, rds_rdma over rdma_rxe).
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/rds/wire/connect.h"
#include "ulp/rds/wire/header.h"

namespace verbatim::ulp::rds {
namespace {

/// Zeros follow the hexadecimal digits.
std::vector<std::byte> bytes_of(std::string_view hex, std::size_t size) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  bytes.resize(size);
  return bytes;
}

struct Golden {
  const char* hex;
  Header header;
};
const Golden kGolden[] = {
    // rds-ping, its answer, an acknowledgement alone, and a congestion map's first fragment.
    {"0000000000000001"
     "0000000000000000"
     "00000000"
     "d83d"
     "0000"
     "02"
     "00"
     "00000000"
     "25c1",
     {.sequence = 1, .source_port = 0xd83d, .flags = Header::kAsksForAck}},
    {"0000000000000001"
     "0000000000000001"
     "00000000"
     "0000"
     "d83d"
     "02"
     "00"
     "00000000"
     "25c0",
     {.sequence = 1, .acknowledged = 1, .destination_port = 0xd83d, .flags = Header::kAsksForAck}},
    {"0000000000000000"
     "0000000000000001"
     "00000000"
     "0000"
     "0000"
     "00"
     "00"
     "00000000"
     "fffe",
     {.acknowledged = 1}},
    {"0000000000000000"
     "0000000000000000"
     "00002000"
     "0000"
     "0000"
     "01"
     "00"
     "00000000"
     "deff",
     {.bytes = 8192, .flags = Header::kMap}}};

TEST(RdsHeader, IsAsKernelsSendIt) {
  for (const Golden& golden : kGolden) {
    const auto bytes = bytes_of(golden.hex, Header::kSize);
    const auto header = decode_header(bytes);
    ASSERT_TRUE(header) << golden.hex;
    EXPECT_EQ(*header, golden.header) << golden.hex;
    std::array<std::byte, Header::kSize> out;
    encode(golden.header, out);
    EXPECT_TRUE(std::ranges::equal(out, bytes)) << golden.hex;
  }
}

TEST(RdsHeader, ExtensionsGoThereAndBack) {
  const Header header{.sequence = 7,
                      .bytes = 1,
                      .used = MemoryKey{0x12345678},
                      .offered = RemoteMemory{MemoryKey{9}, 77}};
  std::array<std::byte, Header::kSize> out;
  encode(header, out);
  EXPECT_EQ(decode_header(out), header);
}

TEST(RdsHeader, WrongOnesAreRefused) {
  std::array<std::byte, Header::kSize> out;
  encode(Header{.sequence = 7, .bytes = 5}, out);
  EXPECT_EQ(decode_header(std::span(out).first(47)).error(), WireError::too_short);
  out[19] = std::byte{6};
  EXPECT_EQ(decode_header(out).error(), WireError::checksum);
  out[30] = out[31] = std::byte{};  // Unchecked.
  EXPECT_EQ(decode_header(out)->bytes, 6u);
  out[16] = std::byte{1};
  EXPECT_EQ(decode_header(out).error(), WireError::too_long);
}

TEST(RdsConnect, IsAsKernelsSendIt) {
  const auto bytes = bytes_of("0a4e00030a4e000203010003", 56);
  const ConnectData data{.source = *SocketAddress::parse("10.78.0.3"),
                         .destination = *SocketAddress::parse("10.78.0.2")};
  EXPECT_EQ(decode_connect(bytes, AF_INET), data);
  const PrivateData out = encode(data);
  EXPECT_TRUE(std::ranges::equal(out, std::span(bytes).first(32)));
  EXPECT_EQ(decode_connect(bytes_of("", 31), AF_INET).error(), WireError::too_short);
  EXPECT_EQ(decode_connect(bytes_of("", 55), AF_INET6).error(), WireError::too_short);
}

TEST(RdsConnect, Ipv6GoesThereAndBack) {
  const ConnectData data{.source = *SocketAddress::parse("fd00::1"),
                         .destination = *SocketAddress::parse("fd00::2"),
                         .version = {4, 1},
                         .tos = 3,
                         .acknowledged = 0x123456789a,
                         .credit = 1};
  const PrivateData out = encode(data);
  EXPECT_EQ(out.size(), 56u);
  EXPECT_EQ(decode_connect({out.begin(), out.size()}, AF_INET6), data);
}

TEST(RdsConnect, VersionsAreAgreedAsLinuxDoes) {
  EXPECT_EQ(version_for({.version = {3, 1}}), (Version{3, 1}));
  EXPECT_EQ(version_for({.version = {4, 1}, .minor_mask = 3}), (Version{4, 1}));
  EXPECT_EQ(version_for({.version = {4, 0}, .minor_mask = 1}), (Version{4, 0}));
  EXPECT_EQ(version_for({.version = {4, 7}, .minor_mask = 0xfff0}).error(), WireError::version);
  EXPECT_EQ(version_for({.version = {3, 0}}).error(), WireError::version);
  EXPECT_EQ(version_for({.version = {0, 0}}).error(), WireError::version);
}

}  // namespace
}  // namespace verbatim::ulp::rds

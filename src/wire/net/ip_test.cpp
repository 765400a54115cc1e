#include "wire/net/ip.h"

#include <cstring>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

constexpr Gid kA{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}};
constexpr Gid kB{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}};
constexpr Gid kA6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kB6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

const IpUdp kIpv4{.flow = {.source = kA, .destination = kB, .source_port = 0xc350},
                  .udp_length = 12,
                  .identification = 0x1234};
const IpUdp kIpv6{.flow = {.source = kA6,
                           .destination = kB6,
                           .source_port = 0xc350,
                           .traffic_class = 0xab,
                           .hop_limit = 3,
                           .flow_label = 0xcdef1},
                  .udp_length = 12};

// The checksums were computed by scapy.
constexpr const char* kIpv4Golden =
    "45000020 12344000 40111497 0a000001 0a000002 c35012b7 000c0000";
constexpr const char* kIpv6Golden =
    "6abcdef1 000c1103 fd000000000000000000000000000001 fd000000000000000000000000000002"
    "c35012b7 000c0000";

std::vector<std::byte> datagram(const IpUdp& headers) {
  std::vector<std::byte> bytes(kIpUdpMaxBytes);
  bytes.resize(encode_ip_udp(headers, bytes));
  bytes.resize(bytes.size() + headers.udp_length - kUdpHeaderBytes);
  return bytes;
}

std::string headers_hex(const IpUdp& headers) {
  std::array<std::byte, kIpUdpMaxBytes> bytes;
  return to_hex(ByteSpan(bytes).first(encode_ip_udp(headers, bytes)));
}

TEST(IpUdp, GoldenBytes) {
  EXPECT_EQ(headers_hex(kIpv4), to_hex(from_hex(kIpv4Golden)));
  EXPECT_EQ(headers_hex(kIpv6), to_hex(from_hex(kIpv6Golden)));
}

TEST(IpUdp, RoundTrip) {
  EXPECT_EQ(decode_ip_udp(datagram(kIpv4)), kIpv4);
  EXPECT_EQ(decode_ip_udp(datagram(kIpv6)), kIpv6);
  IpUdp fragmentable = kIpv4;
  fragmentable.flow.dont_fragment = false;
  fragmentable.flow.traffic_class = 0x68;
  EXPECT_EQ(decode_ip_udp(datagram(fragmentable)), fragmentable);
}

TEST(IpUdp, EveryTruncationIsRefused) {
  for (const IpUdp& headers : {kIpv4, kIpv6}) {
    const auto whole = datagram(headers);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::vector<std::byte> cut(whole.begin(),
                                       whole.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_FALSE(decode_ip_udp(cut).has_value()) << length;
    }
  }
}

TEST(IpUdp, DamagedIpv4HeaderIsRefused) {
  auto bytes = datagram(kIpv4);
  bytes[15] ^= std::byte{1};
  EXPECT_EQ(decode_ip_udp(bytes).error(), WireError::ip_checksum);
}

TEST(IpUdp, OptionsFragmentsAndOtherProtocolsAreRefused) {
  const auto error_with = [](const IpUdp& headers, std::size_t at, std::uint8_t value) {
    auto bytes = datagram(headers);
    bytes[at] = std::byte{value};
    return decode_ip_udp(bytes).error();
  };
  EXPECT_EQ(error_with(kIpv4, 0, 0x46), WireError::ip_header);
  EXPECT_EQ(error_with(kIpv4, 0, 0x55), WireError::ip_version);
  EXPECT_EQ(error_with(kIpv4, 6, 0x20), WireError::ip_header);
  EXPECT_EQ(error_with(kIpv6, 6, 6), WireError::ip_protocol);
  EXPECT_EQ(error_with(kIpv6, 5, 13), WireError::ip_length);
  EXPECT_EQ(error_with(kIpv6, 45, 13), WireError::ip_length);
  auto to_nobody = datagram(kIpv6);
  to_nobody[42] = to_nobody[43] = std::byte{0};
  EXPECT_EQ(decode_ip_udp(to_nobody).error(), WireError::udp_port);
}

TEST(IpUdp, Rfc4942_MappedAddressInAnIpv6HeaderIsRefused) {
  for (const std::size_t address : {8u, 24u}) {
    auto bytes = datagram(kIpv6);
    const Gid mapped = kA;
    std::memcpy(&bytes[address], mapped.bytes.data(), mapped.bytes.size());
    EXPECT_EQ(decode_ip_udp(bytes).error(), WireError::ip_address);
  }
}

}  // namespace
}  // namespace verbatim::wire

#include "wire/mad/rdma_ip_header.h"

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

using Bytes = std::span<const std::byte, RdmaIpHeader::kSize>;

RdmaIpHeader over_ipv4() {
  return {.ipv4 = true,
          .source_port = 0x1234,
          .source = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}},
          .destination = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2}}};
}
RdmaIpHeader over_ipv6() {
  return {.source_port = 7,
          .source = {{0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
          .destination = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}}};
}
constexpr const char* kIpv4 =
    "00401234"
    "0000000000000000000000000a000001"
    "0000000000000000000000000a000002";
constexpr const char* kIpv6 =
    "00600007"
    "fd0102030405060708090a0b0c0d0e0f"
    "fe800000000000000000000000000009";

TEST(RdmaIpHeader, GoldenBytes) {
  EXPECT_EQ(encoded_hex(over_ipv4()), kIpv4);
  EXPECT_EQ(encoded_hex(over_ipv6()), kIpv6);
}

TEST(RdmaIpHeader, DecodesWhatItEncodes) {
  EXPECT_EQ(decode_rdma_ip(Bytes(from_hex(kIpv4))), over_ipv4());
  EXPECT_EQ(decode_rdma_ip(Bytes(from_hex(kIpv6))), over_ipv6());
}

TEST(RdmaIpHeader, PaddingOfIpv4AddressesIsIgnored) {
  auto bytes = from_hex(kIpv4);
  bytes[4] = bytes[15] = bytes[20] = bytes[31] = std::byte{0x77};
  EXPECT_EQ(decode_rdma_ip(Bytes(bytes)), over_ipv4());
}

TEST(RdmaIpHeader, OtherVersionsAreRefused) {
  auto bytes = from_hex(kIpv4);
  bytes[0] = std::byte{0x10};
  EXPECT_EQ(decode_rdma_ip(Bytes(bytes)).error(), WireError::rdma_ip_version);
  bytes[0] = std::byte{0};
  bytes[1] = std::byte{0x50};
  EXPECT_EQ(decode_rdma_ip(Bytes(bytes)).error(), WireError::rdma_ip_version);
}

TEST(SdpAddresses, AreInTheHello) {
  std::vector<std::byte> hello(92);
  hello[7] = std::byte{92};
  hello[17] = std::byte{0x40};
  hello[28] = std::byte{0xc0};
  hello[29] = std::byte{1};
  for (const std::size_t at : {44, 60}) {
    hello[at] = std::byte{10};
    hello[at + 3] = static_cast<std::byte>(at);
  }
  const auto addresses = decode_sdp_addresses(hello);
  ASSERT_TRUE(addresses);
  EXPECT_TRUE(addresses->ipv4);
  EXPECT_EQ(addresses->source_port, 0xc001);
  EXPECT_EQ(addresses->source.bytes[10], 0xff);
  EXPECT_EQ(addresses->source.bytes[15], 44);
  EXPECT_EQ(addresses->destination.bytes[15], 60);
  hello[17] = std::byte{0x60};
  EXPECT_FALSE(decode_sdp_addresses(hello)->ipv4);
  hello[17] = std::byte{0x50};
  EXPECT_FALSE(decode_sdp_addresses(hello));
  EXPECT_FALSE(decode_sdp_addresses(std::span(hello).first(91)));
}

TEST(SdpService, IsItsPortSpaceAndPort) {
  EXPECT_EQ(raw(service_id_of(PortSpace::sdp, 0x1389)), 0x11389u);
  EXPECT_TRUE(is_sdp(ServiceId{0x11389}));
  EXPECT_FALSE(is_sdp(ServiceId{0x21389}) || is_rdma_ip(ServiceId{0x11389}));
}

TEST(RdmaIpService, A11_ServiceIdsHoldProtocolAndPort) {
  EXPECT_EQ(raw(service_id_of(PortSpace::tcp, 0x1c48)), 0x0000000001061c48u);
  EXPECT_EQ(raw(service_id_of(PortSpace::udp, 1)), 0x0000000001110001u);
  EXPECT_EQ(port_of(service_id_of(PortSpace::tcp, 0xfffe)), 0xfffe);
  EXPECT_EQ(port_space_of(service_id_of(PortSpace::udp, 9)), PortSpace::udp);
  EXPECT_TRUE(is_rdma_ip(service_id_of(PortSpace::ipoib, 3)));
  EXPECT_TRUE(is_rdma_ip(service_id_of(PortSpace::ib, 3)));
  EXPECT_FALSE(is_rdma_ip(ServiceId{0x1000000001061c48}));
}

}  // namespace
}  // namespace verbatim::wire

#include "adapter/ethernet/receive_hash.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

// Key and expected values from "Verifying the RSS Hash Calculation", in the documentation of
// Windows' network drivers.
constexpr std::array<std::uint8_t, kHashKeyBytes> kKey{
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

constexpr std::uint32_t kAddresses4 = kHashSourceIpv4 | kHashDestinationIpv4;
constexpr std::uint32_t kAddresses6 = kHashSourceIpv6 | kHashDestinationIpv6;
constexpr std::uint32_t kTcpPorts = kHashSourcePortTcp | kHashDestinationPortTcp;

/// 66.9.149.187:2794 to 161.142.100.80:1766.
wire::Frame ipv4_frame() {
  wire::Frame frame;
  frame.outer.layers = wire::kLayerEthernet | wire::kLayerIpv4 | wire::kLayerTcp;
  auto& fields = frame.outer.fields;
  fields.source_ip = {66, 9, 149, 187};
  fields.destination_ip = {161, 142, 100, 80};
  fields.source_port = {2794 >> 8, 2794 & 0xff};
  fields.destination_port = {1766 >> 8, 1766 & 0xff};
  return frame;
}

/// 3ffe:2501:200:1fff::7 port 2794 to 3ffe:2501:200:3::1 port 1766.
wire::Frame ipv6_frame() {
  wire::Frame frame = ipv4_frame();
  frame.outer.layers = wire::kLayerEthernet | wire::kLayerIpv6 | wire::kLayerTcp;
  frame.outer.fields.source_ip = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff,
                                  0,    0,    0,    0,    0,    0,    0,    7};
  frame.outer.fields.destination_ip = {0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0, 3,
                                       0,    0,    0,    0,    0,    0,    0, 1};
  return frame;
}

TEST(ReceiveHash, PublishedVectors) {
  EXPECT_EQ(hash_of({kAddresses4, kKey}, ipv4_frame()), 0x323e8fc2u);
  EXPECT_EQ(hash_of({kAddresses4 | kTcpPorts, kKey}, ipv4_frame()), 0x51ccc178u);
  EXPECT_EQ(hash_of({kAddresses6, kKey}, ipv6_frame()), 0x2cc18cd5u);
  EXPECT_EQ(hash_of({kAddresses6 | kTcpPorts, kKey}, ipv6_frame()), 0x40207d3du);
}

TEST(ReceiveHash, FieldsThatAreNotThereDoNotCount) {
  const std::uint32_t both = kAddresses4 | kAddresses6;
  EXPECT_EQ(hash_of({both, kKey}, ipv4_frame()), 0x323e8fc2u);
  EXPECT_EQ(hash_of({both, kKey}, ipv6_frame()), 0x2cc18cd5u);
  EXPECT_EQ(hash_of({kHashSourcePortUdp, kKey}, ipv4_frame()), 0u);
  EXPECT_EQ(hash_of({kHashFieldsAll, kKey}, wire::Frame{}), 0u);
}

TEST(ReceiveHash, InnerFieldsInsteadOfOuter) {
  wire::Frame frame = ipv6_frame();
  frame.inner = ipv4_frame().outer;
  EXPECT_EQ(hash_of({kAddresses4 | kHashInner, kKey}, frame), 0x323e8fc2u);
}

TEST(ReceiveHash, EveryFieldFitsTheKey) {
  wire::Frame frame = ipv6_frame();
  hash_of({kHashFieldsAll & ~kHashInner, kKey}, frame);
  frame.outer.layers = wire::kLayerIpv6 | wire::kLayerEsp;
  hash_of({kHashFieldsAll & ~kHashInner, kKey}, frame);
}

}  // namespace
}  // namespace verbatim::adapter

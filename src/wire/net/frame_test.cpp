#include "wire/net/frame.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

const std::string kMacs = "015056 1920a7 248a07 a528c8";
// 1.1.1.1 to 2.2.2.2, 1234 to 5678, four bytes of payload.
const std::string kUdp4 = "45000020 00004000 40110000 01010101 02020202 04d2162e 000c0000 70617921";
const std::string kUdp6 =
    "6ab00005 000c1140 a0a10000000000000000000000000001 b0b10000000000000000000000000002"
    "04d2162e 000c0000 70617921";

Frame parse(const std::string& hex) { return parse_frame(from_hex(hex)); }

template <std::size_t size>
std::string hex(const std::array<std::uint8_t, size>& bytes) {
  return to_hex(std::as_bytes(std::span(bytes)));
}

TEST(Frame, UdpOverIpv4) {
  const Frame frame = parse(kMacs + "0800" + kUdp4);
  EXPECT_EQ(frame.outer.layers, kLayerEthernet | kLayerIpv4 | kLayerUdp);
  EXPECT_EQ(frame.inner.layers, 0);
  EXPECT_TRUE(frame.is_group());
  const FrameFields& fields = frame.outer.fields;
  EXPECT_EQ(hex(fields.destination_mac), "0150561920a7");
  EXPECT_EQ(hex(fields.source_mac), "248a07a528c8");
  EXPECT_EQ(hex(fields.ether_type), "0800");
  EXPECT_EQ(hex(fields.source_ip), "01010101000000000000000000000000");
  EXPECT_EQ(hex(fields.destination_ip), "02020202000000000000000000000000");
  EXPECT_EQ(fields.protocol, 17);
  EXPECT_EQ(fields.hop_limit, 64);
  EXPECT_EQ(fields.ip_flags, kIpv4DontFragment);
  EXPECT_EQ(hex(fields.source_port), "04d2");
  EXPECT_EQ(hex(fields.destination_port), "162e");
  EXPECT_EQ(frame.outer.ip_at, 14u);
  EXPECT_EQ(frame.outer.transport_at, 34u);
  EXPECT_EQ(frame.outer.ip_end, 46u);
}

TEST(Frame, UdpOverIpv6) {
  const Frame frame = parse(kMacs + "86dd" + kUdp6);
  EXPECT_EQ(frame.outer.layers, kLayerEthernet | kLayerIpv6 | kLayerUdp);
  EXPECT_EQ(frame.outer.fields.traffic_class, 0xab);
  EXPECT_EQ(hex(frame.outer.fields.flow_label), "00000005");
  EXPECT_EQ(hex(frame.outer.fields.source_ip), "a0a10000000000000000000000000001");
  EXPECT_EQ(hex(frame.outer.fields.destination_port), "162e");
}

TEST(Frame, ExtensionHeadersAreSkippedAndTheLastProtocolCounts) {
  const Frame frame = parse(kMacs +
                            "86dd 60000000 00140040 a0a10000000000000000000000000001"
                            "b0b10000000000000000000000000002 1100000000000000"
                            "04d2162e 000c0000 70617921");
  EXPECT_EQ(frame.outer.layers, kLayerEthernet | kLayerIpv6 | kLayerUdp);
  EXPECT_EQ(frame.outer.fields.protocol, 17);
}

TEST(Frame, VlanTagsBeforeTheType) {
  const Frame one = parse(kMacs + "8100bc0c 0800" + kUdp4);
  EXPECT_EQ(one.outer.layers, kLayerEthernet | kLayerVlan | kLayerIpv4 | kLayerUdp);
  EXPECT_EQ(hex(one.outer.fields.vlan_tag), "bc0c");
  EXPECT_EQ(hex(one.outer.fields.ether_type), "0800");
  const Frame two = parse(kMacs + "88a8000a 81000014 0800" + kUdp4);
  EXPECT_EQ(hex(two.outer.fields.vlan_tag), "000a");
  EXPECT_TRUE(two.outer.has(kLayerUdp));
}

TEST(Frame, EthernetPaddingIsNoPartOfThePacket) {
  const Frame frame = parse(kMacs + "0800" + kUdp4 + "000000000000");
  EXPECT_EQ(frame.outer.ip_end, 46u);
}

TEST(Frame, LaterFragmentHasNoTransport) {
  std::string later = kUdp4;
  later.replace(13, 4, "0001");
  const Frame frame = parse(kMacs + "0800" + later);
  EXPECT_EQ(frame.outer.layers, kLayerEthernet | kLayerIpv4);
}

TEST(Frame, VxlanCarriesAnEthernetFrame) {
  const Frame frame = parse(kMacs +
                            "0800 45000052 00004000 40110000 01010101 02020202 04d212b5 003e0000"
                            "0800000076adf100" +
                            kMacs + "0800" + kUdp4);
  EXPECT_TRUE(frame.outer.has(kLayerUdp | kLayerVxlan));
  EXPECT_EQ(hex(frame.outer.fields.tunnel_id), "0076adf1");
  EXPECT_EQ(frame.inner.layers, kLayerEthernet | kLayerIpv4 | kLayerUdp);
  EXPECT_EQ(hex(frame.inner.fields.destination_port), "162e");
}

TEST(Frame, GreCarriesIp) {
  const Frame frame = parse(kMacs +
                            "0800 4500003c 00004000 402f0000 01010101 02020202"
                            "20000800 0000002a" +
                            kUdp4);
  EXPECT_TRUE(frame.outer.has(kLayerIpv4 | kLayerGre));
  EXPECT_EQ(hex(frame.outer.fields.gre_key), "0000002a");
  EXPECT_EQ(frame.inner.layers, kLayerIpv4 | kLayerUdp);
}

TEST(Frame, MplsAndEsp) {
  EXPECT_EQ(hex(parse(kMacs + "8847 0001e140").outer.fields.mpls_label), "0001e140");
  const Frame esp = parse(kMacs +
                          "0800 4500001c 00000000 40320000 01010101 02020202"
                          "0000abcd 00000007");
  EXPECT_TRUE(esp.outer.has(kLayerEsp));
  EXPECT_EQ(hex(esp.outer.fields.spi), "0000abcd");
  EXPECT_EQ(hex(esp.outer.fields.sequence), "00000007");
}

/// Each length gets its own allocation, so that a sanitizer sees a read past the end. Each layer
/// appears at one length and stays from there on.
TEST(Frame, EveryTruncation) {
  const auto whole = from_hex(kMacs + "8100bc0c 0800" + kUdp4);
  std::uint16_t before = 0;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(length));
    const Frame frame = parse_frame(cut);
    EXPECT_EQ(frame.outer.layers & before, before) << length;
    before = frame.outer.layers;
    EXPECT_EQ(frame.outer.has(kLayerEthernet), length >= kEthernetHeaderBytes);
    EXPECT_EQ(frame.outer.has(kLayerIpv4), length >= 18 + 20);
    EXPECT_EQ(frame.outer.has(kLayerUdp), length >= 18 + 20 + 8);
    EXPECT_EQ(frame.outer.is_whole, length == whole.size());
  }
}

}  // namespace
}  // namespace verbatim::wire

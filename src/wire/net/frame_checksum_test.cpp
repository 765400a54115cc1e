#include "wire/net/frame_checksum.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

const std::string kMacs = "015056 1920a7 248a07 a528c8";
// The checksums were computed by scapy.
const std::string kUdp4 =
    kMacs + "0800 4500002000004000401134c8 01010101 02020202 04d2162e 000cf54d 70617921";
const std::string kTcp6 =
    kMacs +
    "86dd 6000000000180640 a0a1000000000000a2a3a4a5a6a7a8a9 b0b1000000000000b2b3b4b5b6b7b8b9"
    "04d2162e 00000001 00000000 5000ffff ec940000 70617921";

struct Bytes {
  explicit Bytes(const std::string& hex) : bytes(from_hex(hex)), frame(parse_frame(bytes)) {}
  bool valid() const { return checksums_valid(bytes, frame.outer); }
  void fill() { fill_checksums(bytes, frame.outer); }
  std::vector<std::byte> bytes;
  Frame frame;
};

TEST(FrameChecksum, FilledChecksumsAreTheRightOnes) {
  Bytes udp(kUdp4);
  EXPECT_TRUE(udp.valid());
  const auto right = udp.bytes;
  udp.bytes[24] ^= std::byte{1};  // The IPv4 checksum.
  EXPECT_FALSE(udp.valid());
  udp.fill();
  EXPECT_EQ(to_hex(udp.bytes), to_hex(right));
  udp.bytes[40] ^= std::byte{1};  // The UDP checksum.
  EXPECT_FALSE(udp.valid());
  udp.fill();
  EXPECT_EQ(to_hex(udp.bytes), to_hex(right));
}

TEST(FrameChecksum, TcpOverIpv6) {
  Bytes tcp(kTcp6);
  EXPECT_TRUE(tcp.valid());
  tcp.bytes[70] = std::byte{0};
  EXPECT_FALSE(tcp.valid());
  tcp.fill();
  EXPECT_EQ(to_hex(tcp.bytes), to_hex(from_hex(kTcp6)));
  tcp.bytes.back() ^= std::byte{0x80};
  EXPECT_FALSE(tcp.valid());
}

TEST(FrameChecksum, OddLengthAndPaddingBehindThePacket) {
  Bytes udp(kMacs +
            "0800 4500001f00004000401100 00 01010101 02020202 04d2162e 000b0000 706179 ffff");
  udp.fill();
  EXPECT_TRUE(udp.valid());
}

TEST(FrameChecksum, ZeroUdpChecksumIsNoneOverIpv4) {
  Bytes udp(kUdp4);
  udp.bytes[40] = udp.bytes[41] = std::byte{0};
  EXPECT_TRUE(udp.valid());
}

TEST(FrameChecksum, FirstFragmentKeepsItsTransportChecksum) {
  Bytes udp(kUdp4);
  udp.bytes[20] = std::byte{0x20};  // More fragments.
  udp.fill();
  EXPECT_EQ(to_hex(std::span(udp.bytes).subspan(40, 2)), "f54d");
  EXPECT_FALSE(udp.valid());
}

TEST(FrameChecksum, OtherFramesAreLeftAlone) {
  Bytes arp(kMacs + "0806 00010800060400010000");
  const auto before = arp.bytes;
  arp.fill();
  EXPECT_EQ(arp.bytes, before);
  EXPECT_FALSE(arp.valid());
}

}  // namespace
}  // namespace verbatim::wire

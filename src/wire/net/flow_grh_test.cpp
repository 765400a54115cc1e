#include "wire/net/flow_grh.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

constexpr Gid kA{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
constexpr Gid kB{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16}};

TEST(ReceiveGrh, OverIpv4TheHeaderStandsInTheLast20Bytes) {
  IpUdp headers{.flow = {}, .udp_length = 100};
  headers.flow.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  headers.flow.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  std::array<std::byte, Grh::kSize> out;
  out.fill(std::byte{0xa5});
  encode_receive_grh(headers, out);
  EXPECT_EQ(to_hex(ByteSpan(out).first(20)), std::string(40, '0'));
  EXPECT_EQ(to_hex(ByteSpan(out).last(20)),
            "450000780000400040112673"
            "0a0000010a000002");
}

TEST(ReceiveGrh, OverIpv6ItIsTheIpHeader) {
  const IpUdp headers{.flow = {.source = kA, .destination = kB}, .udp_length = 100};
  std::array<std::byte, Grh::kSize> out;
  encode_receive_grh(headers, out);
  const auto grh = decode_grh(out);
  ASSERT_TRUE(grh.has_value());
  EXPECT_EQ(grh->source, kA);
  EXPECT_EQ(grh->destination, kB);
  EXPECT_EQ(grh->next_header, 17) << "tells RoCE v2 from v1";
  EXPECT_EQ(grh->payload_length, 100);
}

}  // namespace
}  // namespace verbatim::wire

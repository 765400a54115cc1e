#include "wire/net/ethernet/roce_frame.h"

#include <vector>

#include <gtest/gtest.h>

#include "wire/ib/bth.h"
#include "wire/net/frame.h"
#include "wire/net/frame_checksum.h"
#include "wire/net/grh.h"

namespace verbatim::wire {
namespace {

constexpr MacAddress kTo{2, 0, 0, 0, 0, 2}, kFrom{2, 0, 0, 0, 0, 1};

IpFlow flow(const char* from, const char* to) {
  return flow_of(SocketAddress::parse(from, 50000).value(),
                 SocketAddress::parse(to, kRocePort).value());
}

/// A frame with a packet of `bytes` to queue pair 0x1234.
std::vector<std::byte> v2_frame(const IpFlow& flow, std::size_t bytes = 32) {
  std::vector<std::byte> frame(roce_v2_header_bytes(flow) + bytes);
  store_be24(frame.data() + roce_v2_header_bytes(flow) + 5, 0x1234);
  encode_roce_v2_headers(kTo, kFrom, flow, 7, frame);
  return frame;
}

TEST(RoceFrame, V2HasTheHeadersThatAreReadBack) {
  for (const IpFlow& sent : {flow("10.0.0.1", "10.0.0.2"), flow("fd00::1", "fd00::2")}) {
    auto frame = v2_frame(sent);
    EXPECT_EQ(owner_of(frame), (FrameOwner{FrameUse::roce_v2, 0x1234}));
    frame.resize(frame.size() + 10);  // Ethernet's padding.
    const auto read = decode_roce_v2_frame(frame);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->headers.flow, sent);
    EXPECT_EQ(read->packet.size(), 32u);
    EXPECT_EQ(read->headers.identification, sent.is_ipv4() ? 7 : 0);
    EXPECT_TRUE(checksums_valid(frame, parse_frame(frame).outer));
  }
}

TEST(RoceFrame, V1IsFoundByItsGrh) {
  std::vector<std::byte> frame(kEthernetHeaderBytes + Grh::kSize + Bth::kSize);
  encode_ethernet(kTo, kFrom, kTypeRoceV1, frame.data());
  store_be24(frame.data() + kEthernetHeaderBytes + Grh::kSize + 5, 0xffffff);
  EXPECT_EQ(owner_of(frame), (FrameOwner{FrameUse::roce_v1, 0xffffff}));
}

TEST(RoceFrame, WhatIsCutShortIsNobodys) {
  for (const IpFlow& sent : {flow("10.0.0.1", "10.0.0.2"), flow("fd00::1", "fd00::2")}) {
    const auto frame = v2_frame(sent, Bth::kSize);
    for (std::size_t size = 0; size < frame.size(); ++size) {
      std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(owner_of(cut), FrameOwner{}) << size;
      EXPECT_FALSE(decode_roce_v2_frame(cut)) << size;
    }
  }
}

TEST(RoceFrame, AFragmentIsNobodys) {
  auto frame = v2_frame(flow("10.0.0.1", "10.0.0.2"));
  frame[kEthernetHeaderBytes + 7] = std::byte{1};
  EXPECT_EQ(owner_of(frame), FrameOwner{});
}

}  // namespace
}  // namespace verbatim::wire

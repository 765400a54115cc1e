#include <random>
#include <string_view>

#include <gtest/gtest.h>

#include "ulp/ipoib/offload/cut.h"
#include "ulp/ipoib/offload/merge.h"
#include "ulp/ipoib/offload/tcp_header.h"
#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    if (hex[i] == ' ') continue;
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    ++i;
  }
  return bytes;
}

/// A packet of the kernel's as its TUN gives it: a time stamp option, and a checksum that is begun.
struct Large {
  OffloadHeader header;
  Bytes packet;
};
Large large(bool is_ipv4, std::size_t payload, std::uint16_t segment_bytes, unsigned seed = 1) {
  Bytes packet = bytes_of(is_ipv4 ? "45000000 1234 4000 40 06 0000 0a090001 0a090002"
                                  : "60000000 0000 06 40 fd090000000000000000000000000001"
                                    "fd090000000000000000000000000002");
  const std::size_t at = packet.size();
  const Bytes tcp =
      bytes_of("d431 1451 fffffc18 00000007 80 18 0040 0000 0000 0101080a 0000000100000002");
  packet.insert(packet.end(), tcp.begin(), tcp.end());
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < payload; ++i) packet.push_back(static_cast<std::byte>(random()));
  const std::size_t length = packet.size() - (is_ipv4 ? 0 : kIpv6Bytes);
  store_be(&packet[is_ipv4 ? 2 : 4], static_cast<std::uint16_t>(length));
  if (is_ipv4) store_be(&packet[10], checksum_of(sum_of(ByteSpan(packet).first(kIpv4Bytes))));
  const auto ip = decode_ip(packet).value();
  store_be(&packet[at + tcp::kChecksumAt],
           static_cast<std::uint16_t>(
               ~checksum_of(pseudo_sum(ip.source, ip.destination, kTcp, packet.size() - at))));
  return {.header = {.flags = OffloadHeader::kNeedsChecksum,
                     .type = is_ipv4 ? OffloadHeader::kTcpIpv4 : OffloadHeader::kTcpIpv6,
                     .header_bytes = static_cast<std::uint16_t>(at + 32),
                     .segment_bytes = segment_bytes,
                     .checksum_start = static_cast<std::uint16_t>(at),
                     .checksum_offset = tcp::kChecksumAt},
          .packet = packet};
}

bool is_whole(ByteSpan packet) {
  const auto ip = decode_ip(packet);
  if (!ip) return false;
  const auto pseudo = pseudo_sum(ip->source, ip->destination, ip->protocol, ip->payload.size());
  const bool is_right = checksum_of(sum_of(ip->payload, pseudo)) == 0;
  if (ip->type == EtherType::ipv6) return is_right;
  return is_right && checksum_of(sum_of(packet.first(kIpv4Bytes))) == 0;
}

std::vector<Bytes> segments_of(const Large& from) {
  const auto cut = Cut::of(from.header, from.packet);
  std::vector<Bytes> segments;
  for (std::size_t i = 0; cut && i < cut->count(); ++i) {
    Bytes& bytes = segments.emplace_back(cut->header_bytes());
    const ByteSpan payload = cut->segment(i, bytes);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
  }
  return segments;
}

Bytes bytes_of(const Merge::Whole& whole) {
  Bytes bytes;
  for (const ByteSpan part : whole.parts) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

TEST(IpoibOffload, LargePacketIsCutIntoWholeSegments) {
  for (const bool is_ipv4 : {true, false}) {
    const Large from = large(is_ipv4, 5000, 1992);
    const auto segments = segments_of(from);
    ASSERT_EQ(segments.size(), 3u);
    const std::size_t at = is_ipv4 ? 20 : 40;
    std::uint32_t sequence = 0xfffffc18;  // It wraps.
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(is_whole(segments[i])) << i;
      EXPECT_EQ(segments[i].size(), at + 32 + (i < 2 ? 1992 : 1016));
      EXPECT_EQ(load_be<std::uint32_t>(&segments[i][at + 4]), sequence);
      EXPECT_EQ((segments[i][at + 13] & tcp::kPush) != std::byte{}, i == 2);
      if (is_ipv4) {
        EXPECT_EQ(load_be<std::uint16_t>(&segments[i][4]), 0x1234 + i);
      }
      sequence += 1992;
    }
  }
}

/// The kernel's large packet comes out of its segments, whatever they are.
TEST(IpoibOffload, MergedSegmentsAreThePacketThatWasCut) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const Large from =
        large(seed % 2 == 0, 1 + seed * 577, static_cast<std::uint16_t>(536 + seed * 14), seed);
    Merge merge;
    const auto segments = segments_of(from);
    for (const Bytes& segment : segments) ASSERT_TRUE(merge.add(segment)) << seed;
    EXPECT_TRUE(merge.is_full());
    const Merge::Whole whole = merge.take();
    const Bytes packet = bytes_of(whole);
    if (whole.header.type == 0) {  // One segment: as it came.
      EXPECT_TRUE(is_whole(packet));
      continue;
    }
    EXPECT_EQ(packet, from.packet) << seed;
    EXPECT_EQ(std::memcmp(&whole.header, &from.header, sizeof from.header), 0) << seed;
    EXPECT_TRUE(merge.is_empty());
  }
}

TEST(IpoibOffload, SegmentsThatAreShortFillAWholeByTheirNumber) {
  const auto segments = segments_of(large(true, 100 * Merge::kSegmentsMax, 88));
  Merge merge;
  for (std::size_t i = 0; i < Merge::kSegmentsMax; ++i) {
    EXPECT_FALSE(merge.is_full());
    ASSERT_TRUE(merge.add(segments[i]));
  }
  EXPECT_TRUE(merge.is_full());
  EXPECT_EQ(bytes_of(merge.take()).size(), 52 + 88 * Merge::kSegmentsMax);
  EXPECT_TRUE(merge.add(segments[Merge::kSegmentsMax]));
}

TEST(IpoibOffload, DatagramsOfUdpAreCutWithTheirLengths) {
  Large from = large(true, 3000, 1200);
  from.packet.erase(from.packet.begin() + 20, from.packet.begin() + 44);  // TCP's 32 become 8.
  from.packet[9] = std::byte{kUdp};
  store_be(&from.packet[2], static_cast<std::uint16_t>(from.packet.size()));
  from.header.type = OffloadHeader::kUdp;
  const auto segments = segments_of(from);
  ASSERT_EQ(segments.size(), 3u);
  for (const Bytes& segment : segments) {
    EXPECT_TRUE(is_whole(segment));
    EXPECT_EQ(load_be<std::uint16_t>(&segment[24]), segment.size() - 20);
  }
}

TEST(IpoibOffload, WhatDoesNotFollowStandsAlone) {
  const auto segments = segments_of(large(true, 6000, 1992));
  struct Case {
    std::size_t at;
    std::uint8_t flip;
    const char* what;
  };
  for (const auto& [at, flip, what] :
       {Case{1, 4, "type of service"}, Case{12, 1, "source"}, Case{21, 1, "port"},
        Case{27, 1, "sequence"}, Case{31, 1, "acknowledgement"}, Case{33, 1, "FIN"},
        Case{33, 2, "SYN"}, Case{33, 32, "urgent"}, Case{35, 1, "window"},
        Case{47, 1, "time stamp"}, Case{36, 1, "checksum"}, Case{7, 1, "fragment"},
        Case{6, 0x40, "may be fragmented"}}) {
    Bytes other = segments[1];
    other[at] ^= std::byte{flip};
    if (at != 36) {  // Its checksums are right.
      store_be(&other[10], std::uint16_t{0});
      store_be(&other[10], checksum_of(sum_of(ByteSpan(other).first(20))));
      store_be(&other[36], std::uint16_t{0});
      const auto pseudo = sum_of(ByteSpan(other).subspan(12, 8),
                                 static_cast<std::uint32_t>(other.size() - 20) + kTcp);
      store_be(&other[36], checksum_of(sum_of(ByteSpan(other).subspan(20), pseudo)));
    }
    Merge merge;
    ASSERT_TRUE(merge.add(segments[0]));
    EXPECT_FALSE(merge.add(other)) << what;
    EXPECT_TRUE(merge.add(segments[1])) << what;
  }
}

TEST(IpoibOffload, HeadersThatSayNonsenseAreRefused) {
  std::mt19937 random(3);
  for (int i = 0; i < 30'000; ++i) {
    Large from = large(i % 2 == 0, random() % 300, static_cast<std::uint16_t>(random() % 400));
    if (i % 3 == 0) from.header.checksum_start = static_cast<std::uint16_t>(random() % 100);
    if (i % 5 == 0) from.header.checksum_offset = static_cast<std::uint16_t>(random());
    from.packet[random() % from.packet.size()] ^= static_cast<std::byte>(random());
    from.packet.resize(from.packet.size() - random() % 3);
    for (const Bytes& segment : segments_of(from)) {
      Merge merge;
      merge.add(segment);
    }
    complete_checksum(from.header, from.packet);
  }
  Bytes packet(30);
  EXPECT_FALSE(complete_checksum(
      {.flags = OffloadHeader::kNeedsChecksum, .checksum_start = 20, .checksum_offset = 16},
      packet));
}

}  // namespace
}  // namespace verbatim::ulp::ipoib

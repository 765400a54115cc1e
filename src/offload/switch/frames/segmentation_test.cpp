#include "offload/switch/frames/segmentation.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "offload/switch/frames/frames_test_util.h"
#include "offload/switch/key.h"

namespace verbatim::offload {
namespace {

struct Large {
  std::vector<std::byte> frame;
  FrameNote note;
};

/// The sum of the pseudo header (RFC 9293 3.1, RFC 8200 8.1) for `size` bytes of transport.
std::uint16_t pseudo_sum(ByteSpan frame, const FrameShape& shape, std::size_t size) {
  const std::size_t ip = 14 + (shape.vlan >= 0 ? 4 : 0);
  const ByteSpan addresses = shape.is_ipv6 ? frame.subspan(ip + 8, 32) : frame.subspan(ip + 12, 8);
  return fold(add_words(addresses) + shape.protocol + size);
}

Large make_large(const FrameShape& shape, std::uint16_t segment_bytes) {
  Large large{.frame = make_frame(shape)};
  FrameNote& note = large.note;
  const std::size_t start = 14 + (shape.vlan >= 0 ? 4 : 0) + (shape.is_ipv6 ? 40 : 20);
  note = {.needs_checksum = true, .segment_bytes = segment_bytes};
  if (segment_bytes != 0) {
    note.kind = shape.protocol == 17 ? LargeKind::kUdp
                : shape.is_ipv6      ? LargeKind::kTcpIpv6
                                     : LargeKind::kTcpIpv4;
  }
  note.checksum_start = static_cast<std::uint16_t>(start);
  note.checksum_offset = shape.protocol == 17 ? 6 : 16;
  store_be(large.frame.data() + start + note.checksum_offset,
           pseudo_sum(large.frame, shape, large.frame.size() - start));
  return large;
}

/// What a receiver checks.
void expect_right(ByteSpan packet, const FrameShape& shape, std::size_t start) {
  EXPECT_TRUE(key_of(packet, 0)) << "lengths";
  const std::size_t size = packet.size() - start;
  EXPECT_EQ(fold(add_words(packet.subspan(start), pseudo_sum(packet, shape, size))), 0xffff);
  if (!shape.is_ipv6) {
    EXPECT_EQ(fold(add_words(packet.subspan(start - 20, 20))), 0xffff);
  }
}

TEST(Segmentation, PacketsAreWhatTheirSenderWouldHaveSent) {
  for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
    for (const bool is_ipv6 : {false, true}) {
      for (const std::size_t payload : {1u, 99u, 100u, 101u, 5000u}) {
        const FrameShape shape{
            .is_ipv6 = is_ipv6, .vlan = is_ipv6 ? 5 : -1, .protocol = protocol, .payload = payload};
        const auto large = make_large(shape, 100);
        auto segments = Segments::of(large.frame, large.note);
        ASSERT_TRUE(segments);
        std::array<std::byte, 512> room;
        const std::size_t start = large.note.checksum_start;
        const std::size_t headers = start + transport_header_bytes(protocol);
        std::vector<std::byte> all;
        std::uint64_t bytes = 0;
        for (std::uint32_t i = 0; i < segments->count(); ++i) {
          const std::size_t size = segments->next(room);
          ASSERT_GT(size, headers);
          bytes += size;
          const ByteSpan packet(room.data(), size);
          expect_right(packet, shape, start);
          if (protocol == 6) {
            EXPECT_EQ(load_be<std::uint32_t>(room.data() + start + 4), 9 + all.size());
            const bool is_last = i + 1 == segments->count();
            EXPECT_EQ((room[start + 13] & std::byte{9}) != std::byte{}, is_last);
          }
          all.insert(all.end(), packet.begin() + std::ptrdiff_t(headers), packet.end());
        }
        EXPECT_EQ(segments->next(room), 0u);
        EXPECT_EQ(bytes, segments->bytes());
        EXPECT_TRUE(std::ranges::equal(all, ByteSpan(large.frame).subspan(headers)));
      }
    }
  }
}

TEST(Segmentation, ChecksumAlone) {
  const FrameShape shape{.payload = 33};
  const auto large = make_large(shape, 0);
  auto segments = Segments::of(large.frame, large.note);
  ASSERT_TRUE(segments);
  EXPECT_EQ(segments->count(), 1u);
  std::array<std::byte, 512> room;
  const std::size_t size = segments->next(room);
  ASSERT_EQ(size, large.frame.size());
  expect_right(ByteSpan(room.data(), size), shape, large.note.checksum_start);
}

TEST(Segmentation, RefusesWhatTheNoteDoesNotFit) {
  const auto large = make_large({.protocol = 6, .payload = 300}, 100);
  const auto with = [&](auto change) {
    FrameNote note = large.note;
    change(note);
    return Segments::of(large.frame, note).has_value();
  };
  EXPECT_TRUE(with([](FrameNote&) {}));
  EXPECT_FALSE(with([](FrameNote& note) { note.segment_bytes = 0; }));
  EXPECT_FALSE(with([](FrameNote& note) { note.kind = LargeKind::kTcpIpv6; }));
  EXPECT_FALSE(with([](FrameNote& note) { note.checksum_start = 20; }));
  EXPECT_FALSE(with([](FrameNote& note) { note.checksum_start = 65000; }));
  EXPECT_FALSE(with([](FrameNote& note) { note.checksum_offset = 4000; }));
  EXPECT_FALSE(with([](FrameNote& note) { note.checksum_offset = 19; }));
  EXPECT_FALSE(Segments::of(ByteSpan(large.frame).first(40), large.note));
}

TEST(Segmentation, NoRoomWritesNothing) {
  const auto large = make_large({.payload = 300}, 100);
  auto segments = Segments::of(large.frame, large.note);
  std::array<std::byte, 64> room;
  EXPECT_EQ(segments->next(room), 0u);
}

}  // namespace
}  // namespace verbatim::offload

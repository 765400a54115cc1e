#include "wire/net/ethernet/neighbour_message.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "wire/net/ethernet/roce_frame.h"

namespace verbatim::wire {
namespace {

using Kind = NeighbourMessage::Kind;
constexpr MacAddress kOwn{2, 0x56, 0, 0, 0, 1}, kPeer{2, 0x56, 0, 0, 0, 2};

SocketAddress address(const char* text) { return SocketAddress::parse(text).value(); }
std::vector<std::byte> encoded(const NeighbourMessage& message) {
  std::array<std::byte, NeighbourMessage::kSizeMax> room;
  const std::size_t size = encode(message, room);
  return {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(NeighbourMessage, AQuestionAndItsAnswerAreReadBack) {
  for (const auto& [own, peer] :
       {std::pair{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}, {"fe80::1", "fe80::2"}}) {
    const NeighbourMessage question{
        .sender_mac = kOwn, .sender = address(own), .target = address(peer)};
    const auto heard = decode_neighbour_message(encoded(question));
    ASSERT_TRUE(heard) << own;
    EXPECT_EQ(*heard, question);
    EXPECT_EQ(owner_of(encoded(question)).use, FrameUse::neighbours);
    const NeighbourMessage answer = answer_to(*heard, kPeer);
    EXPECT_EQ(answer.to, kOwn);
    EXPECT_EQ(answer.sender, address(peer));
    EXPECT_EQ(decode_neighbour_message(encoded(answer)), answer);
  }
}

TEST(NeighbourMessage, AnArpFrameIsThatOfRfc826) {
  const auto frame =
      encoded({.sender_mac = kOwn, .sender = address("10.0.0.1"), .target = address("10.0.0.2")});
  const std::vector<unsigned> wanted{
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0x56, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0,  6, 4, 0,
      1,    2,    0x56, 0,    0,    0,    1, 10,   0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2};
  ASSERT_EQ(frame.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(frame[i]), wanted[i]) << i;
  }
}

TEST(NeighbourMessage, ASolicitationGoesToTheNodesGroup) {
  const auto frame = encoded(
      {.sender_mac = kOwn, .sender = address("fd00::1"), .target = address("fd00::ab:cdef")});
  EXPECT_EQ(frame[0], std::byte{0x33});
  EXPECT_EQ(frame[2], std::byte{0xff});
  EXPECT_EQ(frame[5], std::byte{0xef});
}

TEST(NeighbourMessage, DamageAndCutsAreNotRead) {
  for (const char* target : {"10.0.0.2", "fd00::2"}) {
    const bool is_ipv4 = address(target).is_ipv4();
    auto frame = encoded({.sender_mac = kOwn,
                          .sender = address(is_ipv4 ? "10.0.0.1" : "fd00::1"),
                          .target = address(target)});
    for (std::size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(decode_neighbour_message(ByteSpan(frame).first(size))) << size;
    }
    if (is_ipv4) continue;
    frame.back() ^= std::byte{1};  // RFC 4861, 7.1.1: the checksum.
    EXPECT_FALSE(decode_neighbour_message(frame));
  }
}

TEST(NeighbourMessage, WhoHasNoAddressYetIsAnsweredToAll) {
  const NeighbourMessage probe{.sender_mac = kOwn, .target = address("fd00::2")};
  const NeighbourMessage answer = answer_to(probe, kPeer);
  EXPECT_EQ(answer.to, (MacAddress{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_EQ(answer.target, address("ff02::1"));
}

}  // namespace
}  // namespace verbatim::wire

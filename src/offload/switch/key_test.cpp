#include "offload/switch/key.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "offload/switch/frames/frames_test_util.h"
#include "sim/random.h"

namespace verbatim::offload {
namespace {

TEST(Key, UdpOverIpv4) {
  const auto frame = make_frame({.source_port = 3000, .destination_port = 4791});
  const auto key = key_of(frame, 5);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->port, 5);
  EXPECT_EQ(key->ether_type, (std::array<std::uint8_t, 2>{8, 0}));
  EXPECT_EQ(key->vlan_tag[0], 0);
  EXPECT_EQ(key->protocol, 17);
  EXPECT_EQ(key->source_port, (std::array<std::uint8_t, 2>{3000 >> 8, 3000 & 255}));
  EXPECT_EQ(key->destination_port, (std::array<std::uint8_t, 2>{4791 >> 8, 4791 & 255}));
}

TEST(Key, TagSaysThatItIsThere) {
  const auto key = key_of(make_frame({.vlan = 100}), 0);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->vlan_tag, (std::array<std::uint8_t, 2>{kTagPresent, 100}));
  EXPECT_EQ(key->vlan_protocol, (std::array<std::uint8_t, 2>{0x81, 0}));
  EXPECT_EQ(key->protocol, 17);
}

TEST(Key, FragmentsHavePortsInTheFirstAlone) {
  const auto first = key_of(make_frame({.fragment = 0x2000}), 0);
  const auto later = key_of(make_frame({.fragment = 0x0010}), 0);
  ASSERT_TRUE(first && later);
  EXPECT_EQ(first->fragment, kFirstFragment);
  EXPECT_NE(first->source_port[1], 0);
  EXPECT_EQ(later->fragment, kLaterFragment);
  EXPECT_EQ(later->source_port[1], 0);
}

TEST(Key, Ipv6BehindExtensionHeaders) {
  const auto key = key_of(make_frame({.is_ipv6 = true, .extension = 60}), 0);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->protocol, 17);
  EXPECT_EQ(key->source_port[1], 1000 & 255);
}

TEST(Key, WhatIsCutShortHasNone) {
  for (const bool is_ipv6 : {false, true}) {
    const auto frame = make_frame({.is_ipv6 = is_ipv6, .vlan = 3});
    for (std::size_t size = 0; size < frame.size(); ++size) {
      EXPECT_FALSE(key_of(ByteSpan(frame).first(size), 0)) << size;
    }
  }
}

/// Under a sanitizer: no byte beyond the frame is read.
TEST(Key, AcceptsAnyBytes) {
  sim::Random random(7);
  for (int round = 0; round < 20000; ++round) {
    auto frame = make_frame({.is_ipv6 = random.chance(0.5), .vlan = random.chance(0.5) ? 1 : -1});
    for (int i = 0; i < 4; ++i) frame[random.below(frame.size())] = std::byte(random.below(256));
    const std::vector<std::byte> exact(frame.begin(),
                                       frame.begin() + std::ptrdiff_t(random.below(frame.size())));
    (void)key_of(exact, 0);
  }
}

std::vector<std::byte> in_vxlan(const std::vector<std::byte>& inner, std::uint16_t port) {
  auto frame = make_frame({.destination_port = port, .payload = 8 + inner.size()});
  const std::size_t at = frame.size() - inner.size() - 8;
  store_be(frame.data() + at, 0x08000000u);
  store_be(frame.data() + at + 4, 42u << 8);
  std::ranges::copy(inner, frame.begin() + static_cast<std::ptrdiff_t>(at + 8));
  return frame;
}

TEST(TunnelKey, HasWhatIsInVxlan) {
  const auto inner = make_frame({.vlan = 5, .protocol = 6, .destination_port = 80});
  const auto frame = in_vxlan(inner, 4789);
  const auto key = key_of(frame, 3);
  ASSERT_TRUE(key);
  const auto tunnel = tunnel_of(frame, *key);
  ASSERT_TRUE(tunnel);
  EXPECT_EQ(tunnel->key.kind, wire::TunnelKind::kVxlan);
  EXPECT_EQ(tunnel->key.id, (std::array<std::uint8_t, 4>{0, 0, 0, 42}));
  EXPECT_EQ(tunnel->key.inner, *key_of(inner, 0));
}

TEST(TunnelKey, IsNoneAtAnotherPortOrOfWhatIsCutShort) {
  const auto inner = make_frame({});
  const auto other = in_vxlan(inner, 4790);
  EXPECT_FALSE(tunnel_of(other, *key_of(other, 0)));
  auto broken = in_vxlan(inner, 4789);
  broken[14 + 20 + 8 + 8 + 14] = std::byte{0x43};  // The inner IP header is too short.
  EXPECT_FALSE(tunnel_of(broken, *key_of(broken, 0)));
  const auto plain = make_frame({});
  EXPECT_FALSE(tunnel_of(plain, *key_of(plain, 0)));
}

}  // namespace
}  // namespace verbatim::offload

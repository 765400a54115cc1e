#include "wire/net/tunnel/tunnel.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbatim::wire {
namespace {

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> all;
  for (const unsigned value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

TEST(Tunnel, RFC7348_Vxlan) {
  const auto packet = bytes({0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0});
  EXPECT_EQ(decode_vxlan(packet), (TunnelHeader{TunnelKind::kVxlan, 0x123456, 0x6558, 8}));
  EXPECT_FALSE(decode_vxlan(bytes({0, 0, 0, 0, 0x12, 0x34, 0x56, 0}))) << "no identifier";
}

TEST(Tunnel, RFC8926_GeneveWithOptions) {
  const auto packet = bytes({0x02, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(decode_geneve(packet), (TunnelHeader{TunnelKind::kGeneve, 42, 0x6558, 16}));
  EXPECT_FALSE(decode_geneve(bytes({0x42, 0, 0x65, 0x58, 0, 0, 42, 0}))) << "version 1";
  EXPECT_FALSE(decode_geneve(bytes({0x00, 0x80, 0x65, 0x58, 0, 0, 42, 0}))) << "control";
}

TEST(Tunnel, RFC2890_GreHasWhatItsBitsSay) {
  EXPECT_EQ(decode_gre(bytes({0, 0, 8, 0})), (TunnelHeader{TunnelKind::kGre, 0, 0x0800, 4}));
  EXPECT_EQ(decode_gre(bytes({0x20, 0, 0x65, 0x58, 0, 0, 1, 0})),
            (TunnelHeader{TunnelKind::kGre, 256, 0x6558, 8}));
  const auto all = bytes({0xb0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9});
  EXPECT_EQ(decode_gre(all), (TunnelHeader{TunnelKind::kGre, 7, 0x0800, 16}));
  EXPECT_FALSE(decode_gre(bytes({0, 1, 8, 0}))) << "PPTP's version";
  EXPECT_FALSE(decode_gre(bytes({0x40, 0, 8, 0}))) << "routing";
}

TEST(Tunnel, WhatIsCutShortIsNone) {
  const auto all = bytes({0xb0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9});
  for (std::size_t size = 0; size < all.size(); ++size) {
    EXPECT_FALSE(decode_gre(ByteSpan(all).first(size))) << size;
  }
  const auto geneve = bytes({0x02, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 4, 5, 6, 7, 8});
  for (std::size_t size = 0; size < geneve.size(); ++size) {
    EXPECT_FALSE(decode_geneve(ByteSpan(geneve).first(size))) << size;
  }
}

}  // namespace
}  // namespace verbatim::wire

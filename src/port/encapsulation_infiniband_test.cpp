#include "port/encapsulation_infiniband.h"

#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::port {
namespace {

using wire::from_hex;

const InfinibandPath kLocal{.dlid = Lid{0x375c}, .slid = Lid{0x17d2}, .service_level = 1};

InfinibandPath global() {
  InfinibandPath path = kLocal;
  path.grh.emplace();
  path.grh->source.bytes[15] = 1;
  path.grh->destination.bytes[15] = 2;
  path.grh->flow_label = 0x12345;
  return path;
}

/// BTH, RETH and payload of the specification's example, and its ICRC.
const auto kPacket = from_hex(
    "0a2024870087b1b3000dec2a 01710a1c015d400238f27a050000000e"
    "bb884d85fd5cfba4728bc0690ed40000 9625b75a");

std::vector<std::byte> whole(const InfinibandPath& path) {
  std::vector<std::byte> bytes(encapsulation_bytes(path));
  encapsulate(path, 7, kPacket.size(), bytes);
  bytes.insert(bytes.end(), kPacket.begin(), kPacket.end());
  return bytes;
}

TEST(EncapsulationInfiniband, WritesTheHeaderOfTheSpecificationsExample) {
  std::vector<std::byte> bytes = whole(kLocal);
  EXPECT_EQ(wire::to_hex(std::span(bytes).first(8)), "7012375c000e17d2");
  const auto found = decapsulate(bytes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->to, kLocal);
  EXPECT_EQ(found->from.dlid, kLocal.slid);
  EXPECT_EQ(found->from.slid, kLocal.dlid);
  EXPECT_EQ(found->group, Gid{});
  EXPECT_TRUE(wire::verify_icrc(icrc_seed(found->to), found->packet, 0));
}

TEST(EncapsulationInfiniband, AGrhComesBackTurnedRound) {
  const InfinibandPath path = global();
  std::vector<std::byte> bytes = whole(path);
  bytes.resize(bytes.size() + 2);  // A VCRC.
  const auto found = decapsulate(bytes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->to, path);
  EXPECT_EQ(found->from.grh->destination, path.grh->source);
  EXPECT_EQ(found->packet.size(), kPacket.size());
}

TEST(EncapsulationInfiniband, ToAMulticastLidIsToItsGroup) {
  InfinibandPath path = global();
  path.dlid = Lid{0xc001};
  std::vector<std::byte> bytes = whole(path);
  EXPECT_EQ(decapsulate(bytes)->group, path.grh->destination);
  path.grh.reset();
  bytes = whole(path);
  EXPECT_FALSE(decapsulate(bytes));
}

TEST(EncapsulationInfiniband, EveryTruncationIsRefused) {
  for (const InfinibandPath& path : {kLocal, global()}) {
    const std::vector<std::byte> bytes = whole(path);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<long>(size));
      EXPECT_FALSE(decapsulate(part)) << size;
    }
  }
}

TEST(EncapsulationInfiniband, LengthsMustAgree) {
  std::vector<std::byte> bytes = whole(global());
  bytes[8 + 5] ^= std::byte{4};  // Of the GRH's payload: four bytes less.
  EXPECT_FALSE(decapsulate(bytes));
  bytes = whole(kLocal);
  bytes[5] = std::byte{5};  // Words of the LRH: a BTH without an ICRC.
  EXPECT_FALSE(decapsulate(bytes));
}

}  // namespace
}  // namespace verbatim::port

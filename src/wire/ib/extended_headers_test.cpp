#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/ib/atomic_eth.h"
#include "wire/ib/deth.h"
#include "wire/ib/feth.h"
#include "wire/ib/reth.h"
#include "wire/ib/xrc_eth.h"

namespace verbatim::wire {
namespace {

template <std::size_t N>
std::span<const std::byte, N> exactly(const std::vector<std::byte>& bytes) {
  EXPECT_EQ(bytes.size(), N);
  return std::span<const std::byte, N>(bytes.data(), N);
}

TEST(Reth, GoldenBytes) {
  const Reth header{
      .address = 0x1122334455667788, .key = MemoryKey{0x99aabbcc}, .length = 0xddeeff01};
  EXPECT_EQ(encoded_hex(header), "112233445566778899aabbccddeeff01");
  const auto bytes = from_hex("1122334455667788 99aabbcc ddeeff01");
  EXPECT_EQ(decode_reth(exactly<Reth::kSize>(bytes)), header);
}

TEST(AtomicEth, GoldenBytes) {
  const AtomicEth header{.address = 0x1122334455667788,
                         .key = MemoryKey{0x99aabbcc},
                         .swap_or_add = 0x0102030405060708,
                         .compare = 0xf1f2f3f4f5f6f7f8};
  EXPECT_EQ(encoded_hex(header), "112233445566778899aabbcc0102030405060708f1f2f3f4f5f6f7f8");
  const auto bytes = from_hex("1122334455667788 99aabbcc 0102030405060708 f1f2f3f4f5f6f7f8");
  EXPECT_EQ(decode_atomic_eth(exactly<AtomicEth::kSize>(bytes)), header);
}

TEST(Feth, GoldenBytes) {
  const Feth header{.placement = Feth::kGlobal | Feth::kPersistent,
                    .selectivity = Feth::Selectivity::region};
  EXPECT_EQ(encoded_hex(header), "00000013");
  const auto bytes = from_hex("00000013");
  EXPECT_EQ(decode_feth(exactly<Feth::kSize>(bytes)), header);
}

TEST(Feth, ReservedBitsAreIgnored) {
  const auto bytes = from_hex("ffffffc1");
  EXPECT_EQ(decode_feth(exactly<Feth::kSize>(bytes)), (Feth{.placement = Feth::kGlobal}));
}

TEST(Deth, GoldenBytes) {
  const Deth header{.qkey = QKey{0x80010000}, .source_qp = Qpn(0x654321)};
  EXPECT_EQ(encoded_hex(header), "8001000000654321");
  const auto bytes = from_hex("80010000 00 654321");
  EXPECT_EQ(decode_deth(exactly<Deth::kSize>(bytes)), header);
}

TEST(XrcEth, GoldenBytes) {
  const XrcEth header{.srq = SrqNumber{0x654321}};
  EXPECT_EQ(encoded_hex(header), "00654321");
  const auto bytes = from_hex("ff 654321");
  EXPECT_EQ(decode_xrc_eth(exactly<XrcEth::kSize>(bytes)), header) << "the reserved byte counts";
}

TEST(Deth, ReservedByteIsIgnored) {
  const auto bytes = from_hex("80010000 ff 654321");
  EXPECT_EQ(decode_deth(exactly<Deth::kSize>(bytes)).source_qp, Qpn(0x654321));
}

}  // namespace
}  // namespace verbatim::wire

#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "region/region_table.h"

namespace verbatim::region {
namespace {

constexpr PdNumber kPd{7};
constexpr PdNumber kOtherPd{8};
constexpr Qpn kQpn{0x11};
Accessor by(Qpn qpn, PdNumber pd = kPd) { return {pd, qpn}; }
constexpr std::uint64_t kIova = 0x5000;
constexpr std::uint32_t kBindable = kLocalWrite | kMwBind;

class Windows : public testing::Test {
 protected:
  Windows()
      : entries_(64),
        table((RegionTable::initialise(header_, 0x5ec4e7), header_), entries_),
        shown(add(kBindable)) {}

  MemoryKey add(std::uint32_t access, PdNumber pd = kPd) {
    return *table.add(
        {.address = 0x10000, .length = 100, .iova = kIova, .access = access, .pd = pd});
  }
  MemoryKey window(EntryKind kind = EntryKind::window_2) { return *table.add_window(kind, kPd); }
  WindowBinding binding(MemoryKey of, std::uint64_t address = kIova + 10,
                        std::uint64_t length = 20) const {
    return {.window = of,
            .key = next(of),
            .region = shown,
            .address = address,
            .length = length,
            .access = kRemoteWrite};
  }
  /// As ibv_inc_rkey: the next key of the same window.
  static MemoryKey next(MemoryKey key) {
    return MemoryKey{(raw(key) & ~0xffu) | ((raw(key) + 1) & 0xff)};
  }
  bool writable(MemoryKey key, std::uint64_t iova, std::uint64_t length, Qpn qpn = kQpn) const {
    return table.check(key, iova, length, kRemoteWrite, by(qpn)).has_value();
  }
  int refused(const WindowBinding& wanted, const Accessor& who = by(kQpn)) {
    const auto bound = table.bind(wanted, who);
    return bound ? 0 : bound.error().code;
  }

  RegionTableHeader header_;
  std::vector<RegionEntry> entries_;
  RegionTable table;
  MemoryKey shown;
};

TEST_F(Windows, NewOneOpensNothing) {
  const MemoryKey key = window(EntryKind::window_1);
  EXPECT_FALSE(writable(key, kIova + 10, 1));
}

TEST_F(Windows, BoundOneGivesItsBytesAndRightsAlone) {
  const MemoryKey of = window();
  ASSERT_EQ(refused(binding(of)), 0);
  const MemoryKey key = next(of);
  EXPECT_TRUE(writable(key, kIova + 10, 20));
  EXPECT_FALSE(writable(key, kIova + 9, 1));
  EXPECT_FALSE(writable(key, kIova + 10, 21));
  EXPECT_FALSE(table.check(key, kIova + 10, 1, kRemoteRead, by(kQpn)));
  EXPECT_FALSE(table.check(key, kIova + 10, 1, kLocalRead, by(kQpn))) << "no lkey";
  const auto held = table.hold(key, kIova + 12, 1, kRemoteWrite, by(kQpn));
  ASSERT_TRUE(held);
  EXPECT_EQ(held->address(), reinterpret_cast<std::byte*>(0x10000 + 12));
}

TEST_F(Windows, ZeroBasedOneIsAddressedFromItsStart) {
  const MemoryKey of = window();
  WindowBinding wanted = binding(of);
  wanted.access |= kZeroBased;
  ASSERT_EQ(refused(wanted), 0);
  EXPECT_TRUE(writable(next(of), 0, 20));
  EXPECT_FALSE(writable(next(of), kIova + 10, 1));
}

TEST_F(Windows, Type2BelongsToTheQueuePairThatBoundIt) {
  const MemoryKey two = window();
  const MemoryKey one = window(EntryKind::window_1);
  ASSERT_EQ(refused(binding(two)), 0);
  ASSERT_EQ(refused(binding(one)), 0);
  EXPECT_FALSE(writable(next(two), kIova + 10, 1, Qpn(0x12)));
  EXPECT_TRUE(writable(next(one), kIova + 10, 1, Qpn(0x12)));
  EXPECT_FALSE(table.check(next(one), kIova + 10, 1, kRemoteWrite, by(kQpn, kOtherPd)));
}

TEST_F(Windows, C10_72_OneDomain) {
  EXPECT_EQ(refused(binding(window()), by(kQpn, kOtherPd)), EINVAL);
  WindowBinding wanted = binding(window());
  wanted.region = add(kBindable, kOtherPd);
  EXPECT_EQ(refused(wanted), EINVAL);
}

TEST_F(Windows, C10_73_RegionMustAllowIt) {
  WindowBinding wanted = binding(window());
  wanted.region = add(kLocalWrite);
  EXPECT_EQ(refused(wanted), EINVAL);
}

TEST_F(Windows, C10_74_RemoteWriteNeedsLocalWrite) {
  WindowBinding wanted = binding(window());
  wanted.region = add(kMwBind);
  EXPECT_EQ(refused(wanted), EINVAL);
  wanted.access = kRemoteRead;
  EXPECT_EQ(refused(wanted), 0);
}

TEST_F(Windows, C10_75_Bounds) {
  EXPECT_EQ(refused(binding(window(), kIova + 10, 91)), EINVAL);
  EXPECT_EQ(refused(binding(window(), kIova - 1, 10)), EINVAL);
  EXPECT_EQ(refused(binding(window(), ~std::uint64_t{0}, 10)), EINVAL);
  EXPECT_EQ(refused(binding(window(), kIova, 100)), 0);
}

TEST_F(Windows, KeyMustKeepTheWindowsName) {
  WindowBinding wanted = binding(window());
  wanted.key = MemoryKey{raw(wanted.key) ^ 0x100};
  EXPECT_EQ(refused(wanted), EINVAL);
  EXPECT_EQ(refused(binding(shown)), EINVAL) << "a region is no window";
  wanted = binding(window());
  wanted.region = window();
  EXPECT_EQ(refused(wanted), EINVAL) << "a window is no region";
}

TEST_F(Windows, Type2MustBeInvalidatedBeforeItIsBoundAgain) {
  const MemoryKey of = window();
  ASSERT_EQ(refused(binding(of)), 0);
  EXPECT_EQ(refused(binding(next(of))), EINVAL);
  ASSERT_TRUE(table.invalidate(next(of), by(kQpn)));
  EXPECT_FALSE(writable(next(of), kIova + 10, 1));
  EXPECT_EQ(refused(binding(next(of))), 0);
  EXPECT_TRUE(writable(next(next(of)), kIova + 10, 1));
}

TEST_F(Windows, Type1IsBoundAnewAndEndedByNoBytes) {
  const MemoryKey of = window(EntryKind::window_1);
  ASSERT_EQ(refused(binding(of)), 0);
  ASSERT_EQ(refused(binding(next(of), kIova, 5)), 0);
  EXPECT_FALSE(writable(next(of), kIova + 10, 1)) << "the old key is gone";
  EXPECT_TRUE(writable(next(next(of)), kIova, 5));
  ASSERT_EQ(refused(binding(next(next(of)), 0, 0)), 0);
  EXPECT_FALSE(writable(next(next(of)), kIova, 5));
  EXPECT_TRUE(table.remove(shown)) << "nothing is bound to it any more";
  EXPECT_EQ(refused(binding(window(), kIova, 0)), EINVAL) << "type 2 has no such binding";
}

TEST_F(Windows, InvalidationIsForItsOwnersKeyAlone) {
  const MemoryKey two = window();
  const MemoryKey one = window(EntryKind::window_1);
  ASSERT_EQ(refused(binding(two)), 0);
  ASSERT_EQ(refused(binding(one)), 0);
  EXPECT_FALSE(table.invalidate(shown, by(kQpn)));
  EXPECT_FALSE(table.invalidate(next(one), by(kQpn))) << "IBA o10-37.2.26";
  EXPECT_FALSE(table.invalidate(two, by(kQpn))) << "an old key";
  EXPECT_FALSE(table.invalidate(next(two), by(Qpn(0x12))));
  EXPECT_TRUE(writable(next(two), kIova + 10, 1));
  EXPECT_TRUE(table.check_invalidation(next(two), by(kQpn)));
  EXPECT_TRUE(table.invalidate(next(two), by(kQpn)));
  EXPECT_FALSE(table.invalidate(next(two), by(kQpn)));
}

TEST_F(Windows, RegionStaysAsItIsWhileWindowsAreBound) {
  const MemoryKey of = window();
  ASSERT_EQ(refused(binding(of)), 0);
  EXPECT_EQ(table.remove(shown).error().code, EBUSY);
  EXPECT_EQ(table.change(shown, {.pd = kPd}).error().code, EBUSY);
  ASSERT_TRUE(table.remove_window(of)) << "ends the binding too";
  EXPECT_FALSE(writable(next(of), kIova + 10, 1));
  EXPECT_TRUE(table.remove(shown));
  EXPECT_EQ(table.remove_window(of).error().code, EINVAL);
}

TEST_F(Windows, GoWithTheirQueuePair) {
  const MemoryKey mine = window();
  const MemoryKey others = window();
  ASSERT_EQ(refused(binding(mine)), 0);
  ASSERT_EQ(refused(binding(others), by(Qpn(0x12))), 0);
  table.unbind_all(kQpn);
  EXPECT_FALSE(writable(next(mine), kIova + 10, 1));
  EXPECT_TRUE(writable(next(others), kIova + 10, 1, Qpn(0x12)));
}

TEST_F(Windows, ChangedRegionKeepsItsKey) {
  ASSERT_TRUE(table.change(
      shown, {.address = 0x20000, .length = 8, .iova = 0, .access = kRemoteRead, .pd = kOtherPd}));
  EXPECT_FALSE(table.check(shown, kIova, 1, kLocalRead, kPd));
  const auto held = table.hold(shown, 4, 4, kRemoteRead, kOtherPd);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->address(), reinterpret_cast<std::byte*>(0x20004));
  EXPECT_EQ(table.change(MemoryKey{1}, {}).error().code, EINVAL);
}

TEST_F(Windows, HoldTellsWhatIsBehind) {
  const auto backing = [this](std::uint32_t access) {
    return table.hold(add(access), kIova, 1, kLocalRead, kPd)->backing();
  };
  EXPECT_EQ(backing(kLocalWrite), Hold::Backing::memory);
  EXPECT_EQ(backing(kOnDemand), Hold::Backing::on_demand);
  EXPECT_EQ(backing(kNull), Hold::Backing::nothing);
  WindowBinding wanted = binding(window());
  wanted.region = add(kBindable | kOnDemand);
  ASSERT_EQ(refused(wanted), 0);
  EXPECT_EQ(table.hold(wanted.key, kIova + 10, 1, kRemoteWrite, by(kQpn))->backing(),
            Hold::Backing::on_demand);
}

}  // namespace
}  // namespace verbatim::region

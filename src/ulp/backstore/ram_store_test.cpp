#include "ulp/backstore/ram_store.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/backstore/answered_for_test.h"

namespace verbatim::ulp::backstore {
namespace {

using storage::Access;
using storage::StoreStatus;

constexpr std::uint64_t kExtent = RamStore::kExtentBytesMin;

/// Numbers what is registered, up to a limit.
struct Keys {
  std::set<std::uint32_t> there;
  std::uint32_t last = 0;
  std::size_t most = 1000;
};
struct FakeRegistrar final : Registrar {
  explicit FakeRegistrar(Keys& to) : keys(to) {}
  Result<MemoryKey> add(std::span<std::byte>) override {
    if (keys.there.size() >= keys.most) return refuse(ENOMEM, "no memory is left");
    keys.there.insert(++keys.last);
    return MemoryKey{keys.last};
  }
  void remove(MemoryKey key) override { EXPECT_EQ(keys.there.erase(raw(key)), 1u); }
  Keys& keys;
};

class RamStoreTest : public testing::Test {
 protected:
  void make(std::uint64_t bytes) {
    auto made = RamStore::create(std::make_unique<FakeRegistrar>(keys), bytes, 512);
    ASSERT_TRUE(made) << made.error().text;
    store = std::move(*made);
  }
  StoreStatus borrow(std::uint64_t offset, std::uint32_t bytes, std::uint32_t tag = 1,
                     Access access = Access::read) {
    store->borrow({.tag = Tag{tag}, .offset = offset, .bytes = bytes, .access = access}, answered);
    return answered.last;
  }
  StoreStatus put(std::uint64_t offset, std::span<const Slice> from) {
    store->put({.tag = Tag{1}, .offset = offset, .from = from}, answered);
    return answered.last;
  }
  StoreStatus fill(std::uint64_t offset, std::uint32_t bytes, char with) {
    std::vector<std::byte> memory(bytes, static_cast<std::byte>(with));
    const std::array slices{Slice{memory.data(), bytes}};
    return put(offset, slices);
  }
  StoreStatus clear(std::uint64_t offset, std::uint64_t bytes) {
    store->clear({.tag = Tag{1}, .offset = offset, .bytes = bytes}, answered);
    return answered.last;
  }
  std::vector<char> content(std::uint64_t offset, std::uint32_t bytes) {
    EXPECT_EQ(borrow(offset, bytes, 9), StoreStatus::done);
    std::vector<char> all;
    for (const Slice& slice : answered.pages) {
      const auto* const at = reinterpret_cast<const char*>(slice.data);
      all.insert(all.end(), at, at + slice.bytes);
    }
    store->give_back(Tag{9});
    return all;
  }
  bool is(std::uint64_t offset, std::uint32_t bytes, char of) {
    return content(offset, bytes) == std::vector<char>(bytes, of);
  }

  Keys keys;
  std::unique_ptr<RamStore> store;
  Answered answered;
};

TEST_F(RamStoreTest, LendsItsOwnPagesSoWhatComesThereIsStored) {
  make(4096);
  ASSERT_EQ(borrow(512, 1024, 1, Access::write), StoreStatus::done);
  const std::span<const Slice> first = answered.pages;
  ASSERT_EQ(borrow(512, 512, 2), StoreStatus::done);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(answered.pages.front().data, first.front().data);
  *first.front().data = std::byte{'1'};
  EXPECT_EQ(put(512, first), StoreStatus::done);
  EXPECT_TRUE(is(512, 1, '1'));
}

TEST_F(RamStoreTest, CopiesWhatLiesElsewhere) {
  make(4096);
  ASSERT_EQ(fill(0, 4096, 'a'), StoreStatus::done);
  std::array<std::byte, 512> capsule;
  capsule.fill(std::byte{'b'});
  const std::array slices{Slice{capsule.data(), 100}, Slice{capsule.data() + 100, 412}};
  EXPECT_EQ(put(1024, slices), StoreStatus::done);
  EXPECT_TRUE(is(0, 1024, 'a'));
  EXPECT_TRUE(is(1024, 512, 'b'));
  EXPECT_TRUE(is(1536, 2560, 'a'));
}

TEST_F(RamStoreTest, ClearsToZeroes) {
  make(4096);
  fill(0, 4096, 'a');
  EXPECT_EQ(clear(512, 512), StoreStatus::done);
  EXPECT_TRUE(is(0, 512, 'a'));
  EXPECT_TRUE(is(512, 512, 0));
  EXPECT_TRUE(is(1024, 3072, 'a'));
}

TEST_F(RamStoreTest, TouchesNothingOutside) {
  make(4096);
  fill(0, 4096, 'a');
  std::array<std::byte, 1024> capsule{};
  const std::array slices{Slice{capsule.data(), 1024}};
  for (const std::uint64_t offset :
       {std::uint64_t{3584}, std::uint64_t{4096}, ~std::uint64_t{511}}) {
    EXPECT_EQ(borrow(offset, 1024), StoreStatus::out_of_range);
    EXPECT_EQ(put(offset, slices), StoreStatus::out_of_range);
    EXPECT_EQ(clear(offset, 1024), StoreStatus::out_of_range);
  }
  EXPECT_EQ(clear(512, ~std::uint64_t{0}), StoreStatus::out_of_range);
  EXPECT_TRUE(is(0, 4096, 'a'));
}

TEST_F(RamStoreTest, WhatIsNotWrittenTakesNoMemoryAndReadsAsZeroes) {
  make(std::uint64_t{64} << 30);
  const std::uint64_t end = store->geometry().bytes, extent = store->extent_bytes();
  EXPECT_EQ(extent, 8u << 20);
  EXPECT_TRUE(is(12345 * 512, 3 << 20, 0));
  EXPECT_EQ(keys.there.size(), 1u) << "the zeroes alone";
  EXPECT_EQ(fill(0, 512, 'a'), StoreStatus::done);
  EXPECT_EQ(fill(end - 512, 512, 'z'), StoreStatus::done);
  EXPECT_EQ(store->written(), 2u);
  EXPECT_TRUE(is(end - 1024, 512, 0));
  EXPECT_TRUE(is(end - 512, 512, 'z'));
  EXPECT_EQ(clear(0, end), StoreStatus::done);
  EXPECT_EQ(store->written(), 0u);
  EXPECT_EQ(keys.there.size(), 1u);
  EXPECT_TRUE(is(end - 512, 512, 0));
  EXPECT_TRUE(is(0, 512, 0));
}

TEST_F(RamStoreTest, RangesCrossExtents) {
  make(4 * kExtent);
  EXPECT_EQ(fill(0, 512, 'k'), StoreStatus::done) << "stays in the first extent";
  EXPECT_EQ(fill(kExtent - 512, 1024, 'a'), StoreStatus::done);
  EXPECT_EQ(store->written(), 2u);
  EXPECT_TRUE(is(kExtent - 1024, 512, 0));
  EXPECT_TRUE(is(kExtent - 512, 1024, 'a'));
  EXPECT_TRUE(is(kExtent + 512, kExtent, 0)) << "half of it written, half not";
  EXPECT_EQ(clear(kExtent - 512, 512 + kExtent), StoreStatus::done);
  EXPECT_EQ(store->written(), 1u) << "the second is cleared whole";
  EXPECT_TRUE(is(0, 512, 'k'));
  EXPECT_TRUE(is(kExtent - 512, 1024, 0));
}

TEST_F(RamStoreTest, WhatIsLentStaysWhenItIsCleared) {
  make(2 * kExtent);
  fill(0, 512, 'a');
  ASSERT_EQ(borrow(0, 512, 3), StoreStatus::done);
  EXPECT_EQ(clear(0, kExtent), StoreStatus::done);
  EXPECT_EQ(store->written(), 1u);
  store->give_back(Tag{3});
  EXPECT_TRUE(is(0, 512, 0));
  EXPECT_EQ(clear(0, kExtent), StoreStatus::done);
  EXPECT_EQ(store->written(), 0u);
}

TEST_F(RamStoreTest, WhatIsClearedPieceByPieceIsGivenBackWithTheLastOne) {
  make(2 * kExtent);
  for (const std::uint64_t at : {std::uint64_t{0}, kExtent - 512}) fill(at, 512, 'a');
  EXPECT_EQ(clear(1 << 20, kExtent - (1 << 20)), StoreStatus::done);
  EXPECT_EQ(store->written(), 1u) << "its first block is there";
  EXPECT_TRUE(is(0, 512, 'a'));
  EXPECT_EQ(clear(0, 1 << 20), StoreStatus::done);
  EXPECT_EQ(clear(1 << 20, kExtent - (1 << 20)), StoreStatus::done);
  EXPECT_EQ(store->written(), 0u);
  EXPECT_TRUE(is(0, kExtent, 0));
}

TEST_F(RamStoreTest, SaysThatThereIsNoMemoryLeft) {
  make(4 * kExtent);
  keys.most = 2;
  EXPECT_EQ(fill(0, 512, 'a'), StoreStatus::done);
  EXPECT_EQ(fill(kExtent, 512, 'b'), StoreStatus::no_space);
  EXPECT_EQ(borrow(kExtent, 512, 2, Access::write), StoreStatus::no_space);
  EXPECT_TRUE(is(kExtent, 512, 0));
  EXPECT_TRUE(is(0, 512, 'a'));
}

}  // namespace
}  // namespace verbatim::ulp::backstore

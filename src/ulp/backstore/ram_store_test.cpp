#include "ulp/backstore/ram_store.h"

#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::ulp::backstore {
namespace {

using storage::StoreStatus;

struct Answered final : Answers {
  void on_pages(Tag, StoreStatus status, std::span<const Slice> lent) override {
    last = status;
    pages = lent;
  }
  void on_stored(Tag, StoreStatus status) override { last = status; }
  StoreStatus last = StoreStatus::gone;
  std::span<const Slice> pages;
};

class RamStoreTest : public testing::Test {
 protected:
  StoreStatus borrow(std::uint64_t offset, std::uint32_t bytes, std::uint32_t tag = 1) {
    store.borrow({.tag = Tag{tag}, .offset = offset, .bytes = bytes}, answered);
    return answered.last;
  }
  StoreStatus put(std::uint64_t offset, std::span<const Slice> from) {
    store.put({.tag = Tag{1}, .offset = offset, .from = from}, answered);
    return answered.last;
  }
  StoreStatus clear(std::uint64_t offset, std::uint64_t bytes) {
    store.clear({.tag = Tag{1}, .offset = offset, .bytes = bytes}, answered);
    return answered.last;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(4096, std::byte{7});
  RamStore store{memory, MemoryKey{5}, 512};
  Answered answered;
};

TEST_F(RamStoreTest, LendsItsOwnPagesSoWhatComesThereIsStored) {
  ASSERT_EQ(borrow(512, 1024, 1), StoreStatus::done);
  const std::span<const Slice> first = answered.pages;
  ASSERT_EQ(borrow(512, 512, 2), StoreStatus::done);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0], (Slice{memory.data() + 512, 1024, MemoryKey{5}}));
  memory[512] = std::byte{1};
  EXPECT_EQ(put(512, first), StoreStatus::done);
  EXPECT_EQ(memory[512], std::byte{1});
}

TEST_F(RamStoreTest, CopiesWhatLiesElsewhere) {
  std::array<std::byte, 512> capsule;
  capsule.fill(std::byte{9});
  const std::array slices{Slice{capsule.data(), 100}, Slice{capsule.data() + 100, 412}};
  EXPECT_EQ(put(1024, slices), StoreStatus::done);
  EXPECT_EQ(std::memcmp(memory.data() + 1024, capsule.data(), 512), 0);
  EXPECT_EQ(memory[1023], std::byte{7});
  EXPECT_EQ(memory[1536], std::byte{7});
}

TEST_F(RamStoreTest, ClearsToZeroes) {
  EXPECT_EQ(clear(512, 512), StoreStatus::done);
  EXPECT_EQ(memory[511], std::byte{7});
  EXPECT_EQ(memory[512], std::byte{0});
  EXPECT_EQ(memory[1023], std::byte{0});
  EXPECT_EQ(memory[1024], std::byte{7});
}

TEST_F(RamStoreTest, TouchesNothingOutside) {
  const std::vector<std::byte> before = memory;
  std::array<std::byte, 1024> capsule{};
  const std::array slices{Slice{capsule.data(), 1024}};
  for (const std::uint64_t offset :
       {std::uint64_t{3584}, std::uint64_t{4096}, ~std::uint64_t{511}}) {
    EXPECT_EQ(borrow(offset, 1024), StoreStatus::out_of_range);
    EXPECT_EQ(put(offset, slices), StoreStatus::out_of_range);
    EXPECT_EQ(clear(offset, 1024), StoreStatus::out_of_range);
  }
  EXPECT_EQ(clear(512, ~std::uint64_t{0}), StoreStatus::out_of_range);
  EXPECT_EQ(memory, before);
}

}  // namespace
}  // namespace verbatim::ulp::backstore

#include "adapter/adoption.h"

#include <cstring>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/page.h"
#include "region/mappings.h"

namespace verbatim::adapter {
namespace {

const std::uint64_t kPageBytes = page_bytes();

/// Memory of a program: different bytes everywhere.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : length_(count * kPageBytes),
        place_(static_cast<std::byte*>(
            mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    for (std::size_t i = 0; i < length_; ++i)
      place_[i] = static_cast<std::byte>(i * 7 + i / kPageBytes);
  }
  ~Pages() { munmap(place_, length_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::uint64_t address(std::size_t page = 0) const {
    return reinterpret_cast<std::uint64_t>(place_) + page * kPageBytes;
  }
  std::vector<std::byte> copy() const { return {place_, place_ + length_}; }
  std::uint64_t length() const { return length_; }
  bool is_private(std::size_t page) const {
    const auto found = region::mappings_of(region::PageRange{address(page), address(page + 1)});
    return found && found->size() == 1 && !found->front().shared;
  }

 private:
  std::size_t length_;
  std::byte* place_;
};

class AdoptionTest : public testing::Test {
 protected:
  explicit AdoptionTest(const region::MemoryFileOptions& options = {})
      : arena_(std::move(*Arena::create())),
        table_(arena_->header().region_header,
               std::span(arena_->at(arena_->header().regions), kRegionsMax)),
        file_(std::move(*region::MemoryFile::create(options))),
        adoption_(*file_, *arena_, table_, [this](TimeNs) {
          EXPECT_TRUE(arena_->header().moves);
          return peers_end_copies_;
        }) {}
  void SetUp() override {
    if (!file_->moves_at_any_time()) GTEST_SKIP() << "this machine refuses userfaultfd";
  }

  MemoryKey enter(std::uint64_t address, std::uint64_t length, std::uint32_t access = 1) {
    region::Region region{.address = address, .length = length, .iova = address, .access = access};
    EXPECT_TRUE(adoption_.prepare(region));
    const auto key = table_.add(region);
    EXPECT_TRUE(key);
    adoption_.enter(*key, region.backing);
    return *key;
  }
  region::Backing backing(MemoryKey key) { return table_.find_region(key)->backing; }
  void leave(MemoryKey key) {
    const auto before = backing(key);
    EXPECT_TRUE(table_.remove(key));
    adoption_.leave(before);
  }
  void reach(MemoryKey key, std::uint64_t address, std::uint64_t length) {
    Reach wish;
    wish.map = backing(key).map;
    wish.address = address;
    wish.length = length;
    adoption_.move(wish);
    EXPECT_FALSE(arena_->header().moves);
  }
  region::PageState state(MemoryKey key, std::uint64_t page) {
    return region::PageMap(arena_->base() + backing(key).map).state(page);
  }

  std::unique_ptr<Arena> arena_;
  region::RegionTable table_;
  std::unique_ptr<region::MemoryFile> file_;
  bool peers_end_copies_ = true;
  Adoption adoption_;
};

TEST_F(AdoptionTest, RegisteringMovesNothing) {
  const Pages pages(300);
  const auto key = enter(pages.address(), pages.length());
  EXPECT_NE(backing(key).map, 0u);
  EXPECT_EQ(backing(key).length, 0u);
  EXPECT_TRUE(pages.is_private(0));
  leave(key);
}

TEST_F(AdoptionTest, WhatAPeerUsesMovesAndMovesBackAtTheEnd) {
  const Pages pages(300);
  const auto before = pages.copy();
  const auto key = enter(pages.address(), pages.length());
  reach(key, pages.address() + 100, 5000);
  EXPECT_EQ(state(key, 0), region::PageState::moved);
  EXPECT_EQ(state(key, 1), region::PageState::moved);
  EXPECT_EQ(state(key, 299), region::PageState::apart);
  EXPECT_GE(backing(key).length, 2 * kPageBytes);
  EXPECT_FALSE(pages.is_private(0));
  EXPECT_TRUE(pages.is_private(299));
  EXPECT_EQ(pages.copy(), before);
  leave(key);
  EXPECT_TRUE(pages.is_private(0));
  EXPECT_EQ(pages.copy(), before);
}

TEST_F(AdoptionTest, WhatMovesInTheMiddleIsReachedByTheMapUntilAllBeforeItHasMoved) {
  const Pages pages(100);
  const auto key = enter(pages.address(), pages.length());
  reach(key, pages.address(64), 8);
  EXPECT_EQ(state(key, 64), region::PageState::moved);
  EXPECT_EQ(backing(key).length, 0u);
  reach(key, pages.address(), pages.length());
  EXPECT_EQ(backing(key).length, pages.length());
  leave(key);
}

TEST_F(AdoptionTest, WhileAPeerCopiesNothingMoves) {
  const Pages pages(4);
  const auto key = enter(pages.address(), pages.length());
  peers_end_copies_ = false;
  reach(key, pages.address(), 8);
  EXPECT_EQ(state(key, 0), region::PageState::apart);
  EXPECT_TRUE(pages.is_private(0));
  peers_end_copies_ = true;
  while (state(key, 0) == region::PageState::apart) {  // It is tried again after a while.
    reach(key, pages.address(), 8);
    std::this_thread::yield();
  }
  EXPECT_EQ(state(key, 0), region::PageState::moved);
  leave(key);
}

TEST_F(AdoptionTest, PagesOfTwoRegionsStayUntilBothHaveEnded) {
  const Pages pages(64);
  const auto before = pages.copy();
  const auto first = enter(pages.address(), pages.length());
  const auto second = enter(pages.address() + 100, pages.length() - 100);
  reach(first, pages.address(), pages.length());
  EXPECT_EQ(state(second, 0), region::PageState::apart);
  reach(second, pages.address() + 100, 8);
  EXPECT_EQ(state(second, 0), region::PageState::moved);
  leave(first);
  EXPECT_FALSE(pages.is_private(0));
  leave(second);
  EXPECT_TRUE(pages.is_private(0));
  EXPECT_EQ(pages.copy(), before);
}

TEST_F(AdoptionTest, AChangedRegionKeepsWhatHasMoved) {
  const Pages pages(64);
  const auto before = enter(pages.address(), pages.length());
  reach(before, pages.address(), pages.length());
  const auto after = enter(pages.address(), pages.length() / 2);
  adoption_.carry_over(backing(before), backing(after));
  leave(before);
  EXPECT_EQ(backing(after).length, pages.length() / 2);
  EXPECT_FALSE(pages.is_private(0));
  EXPECT_TRUE(pages.is_private(63));
  leave(after);
}

TEST_F(AdoptionTest, WhatCannotMoveIsNotTriedAgain) {
  const Pages pages(4);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(pages.address(1)), kPageBytes, PROT_READ), 0);
  const auto key = enter(pages.address(), pages.length());
  reach(key, pages.address(), pages.length());
  EXPECT_EQ(state(key, 0), region::PageState::moved);
  EXPECT_EQ(state(key, 1), region::PageState::kept);
  EXPECT_EQ(state(key, 2), region::PageState::moved);
  EXPECT_EQ(backing(key).length, kPageBytes);
  leave(key);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(pages.address(1)), kPageBytes, PROT_READ | PROT_WRITE),
            0);
}

TEST_F(AdoptionTest, WhatTheRegisteringThreadRunsOnStays) {
  const auto key = enter(reinterpret_cast<std::uint64_t>(&errno), sizeof errno);
  EXPECT_EQ(state(key, 0), region::PageState::kept);
  leave(key);
}

TEST_F(AdoptionTest, OnDemandAndNullRegionsHaveNoMap) {
  const Pages pages(2);
  for (const std::uint32_t access : {region::kOnDemand, region::kNull, region::kElsewhere}) {
    const auto key = enter(pages.address(), pages.length(), access | region::kLocalWrite);
    EXPECT_EQ(backing(key), region::Backing());
    leave(key);
  }
}

TEST_F(AdoptionTest, WishesForOtherMemoryDoNothing) {
  const Pages pages(2);
  const auto key = enter(pages.address(), pages.length());
  reach(key, pages.address() - kPageBytes, 8);
  reach(key, pages.address() + pages.length(), 8);
  reach(key, ~std::uint64_t{0} - 3, ~std::uint64_t{0});
  EXPECT_EQ(state(key, 0), region::PageState::apart);
  reach(key, pages.address(1), ~std::uint64_t{0});
  EXPECT_EQ(state(key, 1), region::PageState::moved);
  leave(key);
}

/// Without a freeze memory moves while the program registers it, if ever.
class AdoptionWithoutFreeze : public AdoptionTest {
 protected:
  AdoptionWithoutFreeze() : AdoptionTest({.own_threads = 1000, .without_freeze = true}) {}
  void SetUp() override {}
};

TEST_F(AdoptionWithoutFreeze, EverythingMovesAtRegistration) {
  const Pages pages(8);
  const auto before = pages.copy();
  const auto key = enter(pages.address(), pages.length());
  EXPECT_EQ(backing(key).length, pages.length());
  EXPECT_EQ(pages.copy(), before);
  leave(key);
  EXPECT_TRUE(pages.is_private(0));
}

}  // namespace
}  // namespace verbatim::adapter

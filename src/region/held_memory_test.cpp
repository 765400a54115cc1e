#include "region/held_memory.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/os/page.h"

namespace verbatim::region {
namespace {

constexpr PdNumber kPd{1};
const std::size_t kPage = page_bytes();

/// Three pages, of which the last can be unmapped, as a region with these rights.
class HeldMemory : public testing::Test {
 protected:
  HeldMemory()
      : entries_(4),
        table_((RegionTable::initialise(header_, 1), header_), entries_),
        pages_(static_cast<std::byte*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~HeldMemory() override { munmap(pages_, 3 * kPage); }

  Hold hold(std::uint32_t access, std::size_t offset, std::size_t length) {
    const auto key = table_.add({.address = reinterpret_cast<std::uint64_t>(pages_),
                                 .length = 3 * kPage,
                                 .access = access | kLocalWrite,
                                 .pd = kPd});
    return *table_.hold(*key, offset, length, kLocalWrite, kPd);
  }
  void take_last_page_away() { munmap(pages_ + 2 * kPage, kPage); }

  RegionTableHeader header_;
  std::vector<RegionEntry> entries_;
  RegionTable table_;
  std::byte* pages_;
};

TEST_F(HeldMemory, OnDemandMemoryIsCopiedAcrossPages) {
  const std::vector<std::byte> bytes(kPage, std::byte{7});
  const auto held = hold(kOnDemand, kPage / 2, kPage);
  ASSERT_TRUE(write_held(held, bytes));
  std::vector<std::byte> back(kPage);
  ASSERT_TRUE(read_held(held, back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(pages_[kPage], std::byte{7});
}

TEST_F(HeldMemory, UnmappedMemoryIsRefusedNotAFault) {
  take_last_page_away();
  std::vector<std::byte> bytes(kPage);
  const auto held = hold(kOnDemand, kPage + kPage / 2, kPage);
  EXPECT_FALSE(write_held(held, bytes));
  EXPECT_FALSE(read_held(held, bytes));
  std::uint64_t zero = 0;
  EXPECT_EQ(word_of(hold(kOnDemand, 2 * kPage, 8), zero), nullptr);
}

TEST_F(HeldMemory, UnattendedWritesToUnmappedMemoryAreLostNotAFault) {
  take_last_page_away();
  const std::vector<std::byte> bytes(64, std::byte{7});
  EXPECT_TRUE(write_unattended(hold(kLocalWrite, kPage, bytes.size()), bytes));
  EXPECT_EQ(pages_[kPage + 63], std::byte{7});
  EXPECT_TRUE(write_unattended(hold(kLocalWrite, 2 * kPage, bytes.size()), bytes));
}

TEST_F(HeldMemory, MemoryThatLostItsRightIsRefused) {
  mprotect(pages_, kPage, PROT_READ);
  std::array<std::byte, 8> bytes{};
  const auto held = hold(kOnDemand, 0, 8);
  EXPECT_TRUE(read_held(held, bytes));
  EXPECT_FALSE(write_held(held, bytes));
}

TEST_F(HeldMemory, NullRegionReadsAsZeroesAndDropsWhatIsWritten) {
  const auto held = hold(kNull, 0, 8);
  std::array<std::byte, 8> bytes;
  bytes.fill(std::byte{5});
  EXPECT_TRUE(write_held(held, bytes));
  EXPECT_EQ(pages_[0], std::byte{0});
  EXPECT_TRUE(read_held(held, bytes));
  EXPECT_EQ(bytes, (std::array<std::byte, 8>{}));
  std::uint64_t zero = 0;
  EXPECT_EQ(word_of(held, zero), &zero);
}

}  // namespace
}  // namespace verbatim::region

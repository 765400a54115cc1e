#include "region/memory.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verbatim::region {
namespace {

using Populate = Result<void> (*)(std::uint64_t, std::uint64_t, bool);

/// Three pages of the test, for both ways of populating.
class MemoryTest : public testing::TestWithParam<Populate> {
 protected:
  ~MemoryTest() override { munmap(page(0), 3 * page_); }

  std::byte* page(std::uint64_t number) const { return memory_ + number * page_; }
  std::string resident() const {
    std::array<unsigned char, 3> pages{};
    EXPECT_EQ(mincore(page(0), 3 * page_, pages.data()), 0);
    std::string picture;
    for (const unsigned char one : pages) picture += (one & 1) != 0 ? 'x' : '.';
    return picture;
  }
  static Result<void> populate(std::uint64_t address, std::uint64_t length, bool writable) {
    return GetParam()(address, length, writable);
  }
  int code(std::uint64_t address, std::uint64_t length, bool writable) const {
    const auto result = populate(address, length, writable);
    return result ? 0 : result.error().code;
  }

  const std::uint64_t page_ = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::byte* const memory_ = static_cast<std::byte*>(
      mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::uint64_t base_ = reinterpret_cast<std::uint64_t>(memory_);
};
INSTANTIATE_TEST_SUITE_P(Ways, MemoryTest, testing::Values(populate_memory, probe_memory),
                         [](const auto& way) { return way.index == 0 ? "madvise" : "probing"; });

TEST_P(MemoryTest, MakesEveryTouchedPageResident) {
  EXPECT_EQ(resident(), "...");
  EXPECT_EQ(code(base_ + page_ - 1, 2, true), 0);
  EXPECT_EQ(resident(), "xx.");
  EXPECT_EQ(code(base_ + 3 * page_ - 1, 1, true), 0);
  EXPECT_EQ(resident(), "xxx");
}

TEST_P(MemoryTest, NoBytesNeedNoMemory) {
  EXPECT_EQ(code(0, 0, true), 0);
  EXPECT_EQ(code(~0ULL, 0, true), 0);
  EXPECT_EQ(resident(), "...");
}

TEST_P(MemoryTest, WrappingRangeIsEinval) {
  EXPECT_EQ(code(base_, ~0ULL, false), EINVAL);
  EXPECT_EQ(code(~0ULL - 10, 100, false), EINVAL);
  EXPECT_EQ(code(~0ULL - 10, 5, false), EINVAL);  // The last page would end beyond 2^64.
}

TEST_P(MemoryTest, HoleIsEfaultAndNamed) {
  munmap(page(1), page_);
  const auto refused = populate(base_ + 5, 2 * page_, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EFAULT);
  EXPECT_EQ(refused.error().text, fmt::format("{:#x}+{}: the page at {:#x} is not mapped",
                                              base_ + 5, 2 * page_, base_ + page_));
  EXPECT_EQ(code(base_, page_, true), 0);
}

TEST_P(MemoryTest, NullPageAndKernelAddressesAreEfault) {
  EXPECT_EQ(code(0, 8, false), EFAULT);
  EXPECT_EQ(code(0, 8, true), EFAULT);
  EXPECT_EQ(code(0xffff'8000'0000'0000, 8, false), EFAULT);
  EXPECT_EQ(code(0x8000'0000'0000'0000, 8, true), EFAULT);
}

TEST_P(MemoryTest, ReadOnlyMappingServesReadingOnly) {
  mprotect(page(1), page_, PROT_READ);
  EXPECT_EQ(code(base_, 3 * page_, false), 0);
  const auto refused = populate(base_, 3 * page_, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EFAULT);
  EXPECT_NE(refused.error().text.find("cannot be written"), std::string::npos);
}

TEST_P(MemoryTest, MappingWithoutRightsIsEfault) {
  mprotect(page(2), page_, PROT_NONE);
  for (const bool writable : {false, true}) {
    const auto refused = populate(base_, 3 * page_, writable);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EFAULT);
    EXPECT_NE(refused.error().text.find("cannot be read"), std::string::npos);
  }
}

TEST_P(MemoryTest, MappingBeyondItsFilesEndIsEfault) {
  const int file = memfd_create("memory_test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(page_)), 0);
  void* const mapped = mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const auto address = reinterpret_cast<std::uint64_t>(mapped);
  EXPECT_EQ(code(address, page_, true), 0);
  EXPECT_EQ(code(address, page_ + 1, true), EFAULT);
  EXPECT_EQ(code(address, page_ + 1, false), EFAULT);
  munmap(mapped, 2 * page_);
  close(file);
}

TEST_P(MemoryTest, ChangesNoByteThatOthersWrite) {
  auto& counter = *reinterpret_cast<std::atomic<std::uint32_t>*>(page(1));
  std::atomic<bool> stop = false;
  std::uint32_t added = 0;
  std::thread writer([&] {
    for (; !stop; ++added) counter.fetch_add(1);
  });
  // Long enough for the two to meet often, even on one CPU.
  while (counter < 50'000) ASSERT_EQ(code(base_, 3 * page_, true), 0);
  stop = true;
  writer.join();
  EXPECT_EQ(counter, added);
}

}  // namespace
}  // namespace verbatim::region

#include "region/adoption/pinned_pages.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/page.h"
#include "base/os/unique_fd.h"
#include "region/adoption/memory_file.h"

namespace verbatim::region {
namespace {

const std::size_t kPage = page_bytes();

std::byte* new_pages(std::size_t pages) {
  void* const place = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  EXPECT_NE(place, MAP_FAILED);
  std::memset(place, 1, pages * kPage);
  return static_cast<std::byte*>(place);
}

PageRange range_of(const std::byte* place, std::size_t pages) {
  const auto begin = reinterpret_cast<std::uint64_t>(place);
  return {begin, begin + pages * kPage};
}

/// Pins pages: an io_uring that has registered the bytes as a fixed buffer.
UniqueFd pin_by_io_uring(std::byte* place, std::size_t bytes) {
  io_uring_params parameters{};
  UniqueFd ring(static_cast<int>(syscall(SYS_io_uring_setup, 1, &parameters)));
  const iovec buffer{place, bytes};
  if (ring &&
      syscall(SYS_io_uring_register, ring.get(), IORING_REGISTER_BUFFERS, &buffer, 1) != 0) {
    ring.reset();
  }
  return ring;
}

TEST(PinnedPages, NoneWhereNobodyHasPinned) {
  std::byte* const place = new_pages(16);
  const auto pinned = pinned_pages(range_of(place, 16));
  ASSERT_TRUE(pinned) << pinned.error().text;
  EXPECT_TRUE(pinned->empty());
  munmap(place, 16 * kPage);
}

TEST(PinnedPages, ThoseOfAFixedBufferAreFound) {
  std::byte* const place = new_pages(16);
  EXPECT_FALSE(may_have_pinned_pages());
  const UniqueFd ring = pin_by_io_uring(place + 4 * kPage, 3 * kPage);
  if (!ring) GTEST_SKIP() << "this machine refuses io_uring";
  EXPECT_TRUE(may_have_pinned_pages());
  const auto pinned = pinned_pages(range_of(place, 16));
  ASSERT_TRUE(pinned) << pinned.error().text;
  EXPECT_EQ(*pinned, std::vector{range_of(place + 4 * kPage, 3)});
  munmap(place, 16 * kPage);
}

TEST(PinnedPages, FilesForDirectIoAndUnknownDevicesMayPin) {
  char name[] = "/tmp/verbatim-pinned-XXXXXX";
  const UniqueFd buffered(mkstemp(name));
  EXPECT_FALSE(may_have_pinned_pages());
  {
    const UniqueFd direct(open(name, O_RDWR | O_DIRECT | O_CLOEXEC));
    EXPECT_TRUE(!direct || may_have_pinned_pages());
  }
  EXPECT_FALSE(may_have_pinned_pages());
  unlink(name);
}

TEST(PinnedPages, TheyStayWhereTheyAreAndTheRestIsAdopted) {
  std::byte* const place = new_pages(16);
  const UniqueFd ring = pin_by_io_uring(place + 4 * kPage, 3 * kPage);
  if (!ring) GTEST_SKIP() << "this machine refuses io_uring";
  const auto file = MemoryFile::create({});
  ASSERT_TRUE(file) << file.error().text;
  const auto pages = range_of(place, 16);
  const auto extents = (*file)->adopt(pages.begin, pages.length());
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0].address, pages.begin);
  EXPECT_EQ(extents[0].length, 4 * kPage);
  EXPECT_EQ(extents[1].address, pages.begin + 7 * kPage);
  EXPECT_EQ(extents[1].length, 9 * kPage);
}

/// Pages of the memory file may have been pinned since: they are not moved.
TEST(PinnedPages, WhatMayHaveBeenPinnedSinceStaysInTheFile) {
  std::byte* const place = new_pages(4);
  const auto file = MemoryFile::create({});
  ASSERT_TRUE(file) << file.error().text;
  const auto pages = range_of(place, 4);
  const auto extents = (*file)->adopt(pages.begin, pages.length());
  {
    const UniqueFd ring = pin_by_io_uring(place, kPage);
    if (!ring) GTEST_SKIP() << "this machine refuses io_uring";
    (*file)->release(extents);
    EXPECT_TRUE(mappings_of(pages)->front().shared);
  }
  (*file)->release((*file)->adopt(pages.begin, pages.length()));
  EXPECT_FALSE(mappings_of(pages)->front().shared);
  EXPECT_EQ(place[5], std::byte{1});
  munmap(place, 4 * kPage);
}

}  // namespace
}  // namespace verbatim::region

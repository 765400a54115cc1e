#include "region/adoption/mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "base/os/page.h"

namespace verbatim::region {
namespace {

TEST(Mappings, LinesAsTheKernelWritesThem) {
  Mapping mapping;
  ASSERT_TRUE(parse_mapping(
      "7f1c00000000-7f1c00021000 rw-p 00003000 fe:01 131 /usr/lib/a name (deleted)\n", mapping));
  EXPECT_EQ(mapping.range, (PageRange{0x7f1c00000000, 0x7f1c00021000}));
  EXPECT_TRUE(mapping.readable && mapping.writable && !mapping.executable && !mapping.shared);
  EXPECT_EQ(mapping.offset, 0x3000u);
  EXPECT_EQ(mapping.file, (MappedFile{makedev(0xfe, 1), 131}));
  EXPECT_EQ(mapping.name, "/usr/lib/a name (deleted)");

  ASSERT_TRUE(parse_mapping("55-56 ---s 00000000 00:00 0 \n", mapping));
  EXPECT_TRUE(!mapping.readable && mapping.shared);
  EXPECT_EQ(mapping.name, "");

  EXPECT_FALSE(parse_mapping("no mapping\n", mapping));
  EXPECT_FALSE(parse_mapping("", mapping));
}

TEST(Mappings, OnlyThoseThatTouchTheRange) {
  const std::size_t kPage = page_bytes();
  auto* const place = static_cast<std::byte*>(
      mmap(nullptr, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(place + kPage, kPage, PROT_NONE), 0);
  const auto begin = reinterpret_cast<std::uint64_t>(place);
  const auto found = mappings_of(PageRange{begin + kPage, begin + 2 * kPage});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_FALSE(found->front().readable);
  munmap(place, 4 * kPage);
}

}  // namespace
}  // namespace verbatim::region

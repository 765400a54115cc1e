#include "base/files/sparse_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verbatim {
namespace {

constexpr std::uint64_t kBytes = 8192;

TEST(SparseFile, KeepsWhatLiesInIt) {
  const auto file = create_sparse_file("test", kBytes);
  ASSERT_TRUE(file) << file.error().text;
  struct Row {
    std::uint64_t offset, bytes;
    bool is_kept;
  };
  constexpr Row rows[] = {{0, kBytes, true},
                          {kBytes, 0, true},
                          {kBytes - 1, 1, true},
                          {kBytes - 1, 2, false},
                          {kBytes + 1, 0, false},
                          {0, kBytes + 1, false},
                          {1, ~std::uint64_t{0}, false},
                          {~std::uint64_t{0}, 2, false}};
  for (const auto& [offset, bytes, is_kept] : rows)
    EXPECT_EQ(keeps_bytes(file->get(), offset, bytes), is_kept) << offset << " " << bytes;
}

TEST(SparseFile, OneThatCanShrinkKeepsNothing) {
  const UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  EXPECT_FALSE(keeps_bytes(file.get(), 0, 1));
  const UniqueFd device(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(keeps_bytes(device.get(), 0, 0)) << "no seals";
}

}  // namespace
}  // namespace verbatim

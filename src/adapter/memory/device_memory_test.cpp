#include "adapter/memory/device_memory.h"

#include <array>
#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

TEST(DeviceMemory, CopiesInAndOut) {
  DeviceMemory memory;
  const auto handle = memory.allocate(100, 0);
  ASSERT_TRUE(handle);
  constexpr std::array kBytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ASSERT_TRUE(memory.copy_in(*handle, 96, kBytes));
  std::array<std::byte, 4> out{};
  ASSERT_TRUE(memory.copy_out(*handle, 96, out));
  EXPECT_EQ(out, kBytes);
  EXPECT_EQ(memory.copy_out(*handle, 100, out).error().code, EFAULT);
  EXPECT_EQ(memory.copy_out(*handle, ~std::uint64_t{0} - 3, out).error().code, EFAULT);
  EXPECT_EQ(memory.copy_out(*handle, 3, out).error().code, EINVAL);
  EXPECT_EQ(memory.copy_in(*handle, 0, std::span(kBytes).first(3)).error().code, EINVAL);
  EXPECT_EQ(memory.copy_in(*handle + 1, 0, kBytes).error().code, ENOENT);
}

TEST(DeviceMemory, IsAsLargeAsItSays) {
  DeviceMemory memory;
  EXPECT_EQ(memory.allocate(DeviceMemory::kBytesMax + 1, 0).error().code, ENOMEM);
  const auto most = memory.allocate(DeviceMemory::kBytesMax, DeviceMemory::kAlignMax);
  ASSERT_TRUE(most);
  EXPECT_EQ(memory.allocate(1, 0).error().code, ENOMEM);
  ASSERT_TRUE(memory.free(*most));
  EXPECT_TRUE(memory.allocate(1, 0));
  EXPECT_EQ(memory.allocate(0, 0).error().code, EINVAL);
  EXPECT_EQ(memory.allocate(1, DeviceMemory::kAlignMax + 1).error().code, EINVAL);
}

TEST(DeviceMemory, StaysWhileRegionsLieOverIt) {
  DeviceMemory memory;
  const auto handle = memory.allocate(8, 0);
  ASSERT_TRUE(handle);
  memory.add_region(*handle);
  EXPECT_EQ(memory.free(*handle).error().code, EBUSY);
  memory.remove_region(*handle);
  EXPECT_TRUE(memory.free(*handle));
  EXPECT_EQ(memory.free(*handle).error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::adapter

#include "offload/card/kernel_device.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::offload {
namespace {

TEST(KernelDevice, SaysWhyThereIsNone) {
  const auto missing = KernelDevice::attach("/dev/verbatim-nic-that-is-not-there", {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_NE(missing.error().text.find("verbatim_nic"), std::string::npos) << missing.error().text;
  const auto other = KernelDevice::attach("/dev/null", {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ENOTTY) << other.error().text;
}

}  // namespace
}  // namespace verbatim::offload

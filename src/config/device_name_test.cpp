#include "config/device_name.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::config {
namespace {

constexpr DeviceIdentity kNode{.node = "a", .guid = 0x0200'00ff'fe00'0002};

TEST(DeviceName, APlainNameIsItself) {
  for (const char* name : {"verbatim0", "mlx5_0", "rxe-1", "a", "roce.1"}) {
    EXPECT_TRUE(check_device_name(name)) << name;
    EXPECT_EQ(device_name(name, kNode), name);
  }
  EXPECT_TRUE(check_device_name(std::string(kDeviceNameMax, 'a')));
}

TEST(DeviceName, ImpossibleOnesAreRefused) {
  for (const char* name : {"", "0a", "_a", "a/b", "a b", "a:1", "..", "name\n"}) {
    const auto checked = check_device_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, EINVAL);
  }
  EXPECT_FALSE(check_device_name(std::string(kDeviceNameMax + 1, 'a')));
}

TEST(DeviceName, RulesAsUdevHasThem) {
  EXPECT_EQ(device_name("NAME_KERNEL", kNode), "verbatim0");
  EXPECT_EQ(device_name("NAME_GUID", kNode), "rocex020000fffe000002");
  EXPECT_EQ(device_name("NAME_FALLBACK", kNode), "rocex020000fffe000002");
  EXPECT_EQ(device_name("NAME_NODE", kNode), "a_0");
  DeviceIdentity iwarp = kNode;
  iwarp.protocol = WireProtocol::iwarp;
  EXPECT_EQ(device_name("NAME_GUID", iwarp), "iwx020000fffe000002");
}

TEST(DeviceName, RulesThatNeedABusAreRefusedInWords) {
  EXPECT_EQ(check_device_name("NAME_PCI").error().text,
            "NAME_PCI names a device by its place on a bus, and an emulated one has none: take "
            "NAME_GUID, or a plain name");
  EXPECT_FALSE(check_device_name("NAME_ONBOARD"));
  EXPECT_EQ(check_device_name("NAME_GIUD").error().text,
            "'NAME_GIUD' is no rule: NAME_KERNEL, NAME_GUID, NAME_FALLBACK and NAME_NODE are");
}

TEST(DeviceName, TheLongestNodeNameHasRoom) {
  const std::string node(63, 'n');
  EXPECT_EQ(device_name("NAME_NODE", {.node = node}).size(), kDeviceNameMax);
}

}  // namespace
}  // namespace verbatim::config

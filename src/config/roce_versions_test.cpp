#include "config/roce_versions.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::config {
namespace {

TEST(RoceVersions, AreReadAndWritten) {
  for (const char* text : {"v1", "v2", "v1,v2", "v2,v1"}) {
    const auto versions = parse_roce_versions(text);
    ASSERT_TRUE(versions) << text;
    EXPECT_EQ(text_of(*versions), text);
  }
}

TEST(RoceVersions, WhatNamesNoneIsRefused) {
  for (const char* text : {"", ",", "v3", "1", "v1,v1", "v1,", "v1,,v2", "V2", "v1 v2"}) {
    const auto versions = parse_roce_versions(text);
    ASSERT_FALSE(versions) << text;
    EXPECT_EQ(versions.error().code, EINVAL);
  }
}

TEST(RoceVersions, AreToldByPorts) {
  const auto ip = SocketAddress::ipv4({10, 0, 0, 1});
  EXPECT_EQ(of_version(ip, RoceVersion::v2).port(), kRocePort);
  const SocketAddress both[] = {of_version(ip, RoceVersion::v2), of_version(ip, RoceVersion::v1)};
  EXPECT_EQ(versions_of(both), (RoceVersions{RoceVersion::v2, RoceVersion::v1}));
}

}  // namespace
}  // namespace verbatim::config

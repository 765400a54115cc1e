#include "agent/identity/view.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/net/address.h"

namespace verbatim::agent {
namespace {

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() {
    std::string pattern = ::testing::TempDir() + "/verbatim-view-XXXXXX";
    const char* const folder = mkdtemp(pattern.data());
    EXPECT_NE(folder, nullptr);
    root_ = folder != nullptr ? std::string(folder) + "/view" : "";
    node_.name = "test";
    node_.guid = 0x0200'00ff'fe00'0002;
    node_.interface = "lo";
    node_.add(SocketAddress::ipv4({127, 0, 0, 2}, kRocePort));
  }
  ~ViewTest() override { std::filesystem::remove_all(std::filesystem::path(root_).parent_path()); }

  std::string line(const std::string& path) const {
    std::ifstream file(root_ + path);
    std::string text;
    std::getline(file, text);
    return file ? text : "missing";
  }

  std::string root_;
  Node node_;
};

TEST_F(ViewTest, ClassesLeadToTheDeviceAndBack) {
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/node_guid"), "0200:00ff:fe00:0002");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gids/0"),
            "0000:0000:0000:0000:0000:ffff:7f00:0002");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gids/63"),
            "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/1"), "missing");
  EXPECT_EQ(line("/sys/class/infiniband_verbs/uverbs0/ibdev"), "verbatim0");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/device/numa_node"), "-1");
  EXPECT_TRUE(std::filesystem::exists(root_ + "/sys/class/infiniband/verbatim0/device/net/lo"));
}

TEST_F(ViewTest, CountersAreThePortsInLinuxsUnits) {
  const std::string folder = "/sys/class/infiniband/verbatim0/ports/1/counters/";
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line(folder + "port_xmit_data"), "0");
  show_counters(root_, node_, {},
                {.packets_sent = 2,
                 .bytes_sent = 4096,
                 .packets_received = 1,
                 .bytes_received = 400,
                 .receive_errors = 3});
  EXPECT_EQ(line(folder + "port_xmit_data"), "1024");
  EXPECT_EQ(line(folder + "port_xmit_packets"), "2");
  EXPECT_EQ(line(folder + "port_rcv_data"), "100");
  EXPECT_EQ(line(folder + "port_rcv_packets"), "1");
  EXPECT_EQ(line(folder + "port_rcv_errors"), "3");
  for (const auto& entry : std::filesystem::directory_iterator(root_ + folder)) {
    EXPECT_TRUE(entry.is_regular_file())
        << entry.path();  // prometheus-node-exporter ignores other kinds.
  }
}

TEST_F(ViewTest, EachGidHasItsRoceVersion) {
  node_.add(SocketAddress::ipv4({127, 0, 0, 2}, 0));
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/0"), "RoCE v2");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/1"), "IB/RoCE v1");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gids/1"),
            "0000:0000:0000:0000:0000:ffff:7f00:0002");
}

TEST_F(ViewTest, TheVerbsDeviceIsACharacterDeviceForReadingAndWriting) {
  ASSERT_TRUE(write_view(root_, node_));
  const std::string path = root_ + "/dev/infiniband/uverbs0";
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(access(path.c_str(), R_OK | W_OK), 0);
}

TEST_F(ViewTest, ASecondViewTakesThePlaceOfTheFirst) {
  ASSERT_TRUE(write_view(root_, node_));
  node_.gids.clear();
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/0"), "missing");
  EXPECT_FALSE(std::filesystem::exists(root_ + ".new"));
  remove_view(root_);
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(ViewTest, APortThatIsDownAndAnAddressThatIsGoneAreShown) {
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/state"), "4: ACTIVE");
  node_.network = {.is_active = false, .addresses = 0};
  ASSERT_TRUE(write_view(root_, node_));
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/state"), "1: DOWN");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/phys_state"), "3: Disabled");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gids/0"),
            "0000:0000:0000:0000:0000:0000:0000:0000");
  EXPECT_EQ(line("/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/0"), "missing");
}

TEST_F(ViewTest, WhatCannotBeWrittenIsSaid) {
  EXPECT_FALSE(write_view("/proc/no-such-folder/view", node_));
}

}  // namespace
}  // namespace verbatim::agent

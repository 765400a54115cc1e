#include "ulp/target/tree/alua/port_groups.h"

#include <gtest/gtest.h>

#include "ulp/target_tree/fake_hooks_for_test.h"
#include "ulp/target_tree/lio/lio.h"
#include "ulp/target_tree/tree.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

/// A device with two portal groups of iSCSI's.
class AluaTreeTest : public testing::Test {
 protected:
  AluaTreeTest() {
    tree.add("target", target_tree::kLio);
    for (const char* const path :
         {"target/core/rd_mcp_0", "target/core/rd_mcp_0/d", "target/iscsi", "target/iscsi/t",
          "target/iscsi/t/tpgt_1", "target/iscsi/t/tpgt_1/lun/lun_0", "target/iscsi/t/tpgt_2",
          "target/iscsi/t/tpgt_2/lun/lun_0"})
      EXPECT_TRUE(tree.mkdir(path)) << path;
    write("control", "rd_pages=16");
    write("enable", "1");
    for (const std::string group : {"1", "2"})
      EXPECT_TRUE(tree.symlink("/sys/kernel/config/" + kDevice,
                               "target/iscsi/t/tpgt_" + group + "/lun/lun_0/x"));
  }
  void write(const std::string& attribute, std::string_view value) {
    EXPECT_TRUE(tree.write(kDevice + "/" + attribute, value)) << attribute;
  }
  std::vector<scsi::PortGroup> groups() {
    const Node* at = &tree.root();
    for (const char* const name : {"target", "core", "rd_mcp_0", "d"}) at = at->child(name);
    return port_groups_of(*at, numbers);
  }

  const std::string kDevice = "target/core/rd_mcp_0/d";
  target_tree::FakeHooks hooks;
  target_tree::Tree tree{hooks};
  PortNumbers numbers;
};

TEST_F(AluaTreeTest, TheDefaultGroupIsLinuxs) {
  const auto all = groups();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], (scsi::PortGroup{.name = "default_tg_pt_gp",
                                     .supported = 0xcf,
                                     .is_explicit = true,
                                     .ports = {{.port = 1}, {.port = 2}}}));
}

TEST_F(AluaTreeTest, AGroupHasWhatItsFolderSays) {
  EXPECT_TRUE(tree.mkdir(kDevice + "/alua/other"));
  EXPECT_EQ(groups().size(), 1u) << "it has no number";
  write("alua/other/tg_pt_gp_id", "16");
  write("alua/other/alua_access_state", "2");
  write("alua/other/alua_access_type", "1");
  write("alua/other/implicit_trans_secs", "9");
  write("alua/other/preferred", "1");
  write("alua/other/alua_support_unavailable", "0");
  EXPECT_TRUE(tree.write("target/iscsi/t/tpgt_2/lun/lun_0/alua_tg_pt_gp", "other\n"));
  EXPECT_TRUE(tree.write("target/iscsi/t/tpgt_2/lun/lun_0/alua_tg_pt_offline", "1"));
  const auto all = groups();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].ports, (std::vector<scsi::PortGroup::Member>{{.port = 1}}));
  EXPECT_EQ(all[1], (scsi::PortGroup{.name = "other",
                                     .id = 16,
                                     .state = scsi::AccessState::standby,
                                     .status = scsi::AccessStatus::target,
                                     .supported = 0xc7,
                                     .transition_seconds = 9,
                                     .is_preferred = true,
                                     .is_implicit = true,
                                     .is_explicit = false,
                                     .ports = {{.port = 2, .is_offline = true}}}));
}

TEST_F(AluaTreeTest, WhatAnInitiatorChangesIsSeenInTheFolder) {
  auto group = groups()[0];
  group.state = scsi::AccessState::non_optimized;
  group.status = scsi::AccessStatus::initiator;
  for (const auto& [name, value] : attributes_of(group))
    tree.note(kDevice + "/alua/" + group.name + "/" + name, value);
  tree.note(kDevice + "/alua/gone/alua_access_state", "1");
  EXPECT_EQ(tree.read(kDevice + "/alua/default_tg_pt_gp/alua_access_state"), "1\n");
  EXPECT_EQ(tree.read(kDevice + "/alua/default_tg_pt_gp/alua_access_status"),
            "Altered by Explicit STPG\n");
  EXPECT_EQ(groups(), std::vector{group});
}

TEST_F(AluaTreeTest, PortsKeepTheirNumbers) {
  EXPECT_EQ(numbers.of("a"), 1);
  EXPECT_EQ(numbers.of("b"), 2);
  EXPECT_EQ(numbers.of("a"), 1);
  numbers.forget("a");
  EXPECT_EQ(numbers.of("c"), 1);
  EXPECT_EQ(numbers.of("b"), 2);
}

}  // namespace
}  // namespace verbatim::ulp::target

#include "ulp/target_tree/tree.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

#include "ulp/target_tree/fake_hooks_for_test.h"
#include "ulp/target_tree/lio/lio.h"
#include "ulp/target_tree/nvmet.h"
#include "ulp/target_tree/rdma_cm.h"

namespace verbatim::ulp::target_tree {
namespace {

struct Bench {
  FakeHooks hooks;
  Tree tree{hooks};
  Bench() {
    tree.add("nvmet", kNvmet);
    tree.add("target", kLio);
    tree.add("rdma_cm", kRdmaCm);
  }
};
int code(const Answer<void>& answer) { return answer ? 0 : answer.error(); }
template <typename T>
int code(const Answer<T>& answer) {
  return answer ? 0 : answer.error();
}

TEST(TargetTree, PathsAreFollowedOverDotsAndLinks) {
  Bench b;
  b.hooks.prepare("address", "10.0.0.1");
  ASSERT_EQ(code(b.tree.mkdir("/nvmet//subsystems/s/")), 0);
  ASSERT_EQ(code(b.tree.mkdir("nvmet/ports/./1")), 0);
  ASSERT_EQ(code(b.tree.write("nvmet/ports/1/addr_trtype", "rdma")), 0);
  ASSERT_EQ(code(b.tree.write("nvmet/ports/1/addr_traddr", "10.0.0.1")), 0);
  ASSERT_EQ(code(b.tree.symlink("/sys/kernel/config/nvmet/subsystems/s",
                                "nvmet/hosts/../ports/1/subsystems/x")),
            0);
  EXPECT_EQ(b.tree.read("nvmet/ports/1/subsystems/x/attr_model"), "Linux\n");
  EXPECT_EQ(code(b.tree.list("nvmet/ports/1/subsystems/x")), 0);
  EXPECT_EQ(code(b.tree.rmdir("nvmet/ports/1/subsystems/x")), ENOTDIR);
  EXPECT_EQ(code(b.tree.unlink("nvmet/ports/1")), EISDIR);
  EXPECT_EQ(code(b.tree.read("nvmet/ports/1")), EISDIR);
  EXPECT_EQ(code(b.tree.list("nvmet/ports/1/addr_trtype")), ENOTDIR);
  EXPECT_EQ(code(b.tree.mkdir("nvmet/ports/1/addr_trtype/x")), ENOTDIR);
  EXPECT_EQ(code(b.tree.mkdir("nvmet/nothing/x")), ENOENT);
  EXPECT_EQ(code(b.tree.mkdir("..")), EEXIST);
}

TEST(TargetTree, APortHasItsVersionOfRoce) {
  Bench b;
  EXPECT_EQ(code(b.tree.mkdir("rdma_cm/none")), ENODEV);
  b.hooks.prepare("device", "rxe0");
  ASSERT_EQ(code(b.tree.mkdir("rdma_cm/rxe0")), 0);
  const std::string port = "rdma_cm/rxe0/ports/1/";
  EXPECT_EQ(b.tree.read(port + "default_roce_mode"), "RoCE v2\n");
  EXPECT_EQ(code(b.tree.write(port + "default_roce_mode", "IB/RoCE v1\n")), 0);
  EXPECT_EQ(code(b.tree.write(port + "default_roce_mode", "RoCE v3")), EINVAL);
  EXPECT_EQ(code(b.tree.write(port + "default_roce_tos", "256")), ERANGE);
  EXPECT_EQ(b.tree.read(port + "default_roce_mode"), "IB/RoCE v1\n");
}

TEST(TargetTree, NewestIsListedFirst) {
  Bench b;
  for (const char* name : {"a", "b", "c"})
    ASSERT_EQ(code(b.tree.mkdir(std::string("nvmet/hosts/") + name)), 0);
  EXPECT_EQ(b.tree.list("nvmet/hosts"), (std::vector<std::string>{"c", "b", "a"}));
}

TEST(TargetTree, ARefusalOfTheDaemonChangesNothing) {
  Bench b;
  ASSERT_EQ(code(b.tree.mkdir("nvmet/subsystems/s")), 0);
  ASSERT_EQ(code(b.tree.mkdir("nvmet/subsystems/s/namespaces/1")), 0);
  ASSERT_EQ(code(b.tree.write("nvmet/subsystems/s/namespaces/1/device_path", "/none")), 0);
  ASSERT_EQ(code(b.tree.mkdir("target/srpt")), 0);
  const Tally before = b.tree.tally();
  EXPECT_EQ(code(b.tree.write("nvmet/subsystems/s/namespaces/1/enable", "1")), ENOENT);
  EXPECT_EQ(b.tree.read("nvmet/subsystems/s/namespaces/1/enable"), "0\n");
  EXPECT_EQ(code(b.tree.mkdir("target/srpt/0x0")), EINVAL);
  EXPECT_EQ(code(b.tree.stat("target/srpt/0x0")), ENOENT);
  EXPECT_EQ(b.tree.tally().nodes, before.nodes);
  EXPECT_EQ(b.tree.tally().bytes, before.bytes);
}

TEST(TargetTree, WhatProgramsMakeIsBounded) {
  Bench b;
  EXPECT_EQ(code(b.tree.mkdir("nvmet/hosts/" + std::string(256, 'x'))), ENAMETOOLONG);
  EXPECT_EQ(code(b.tree.mkdir(std::string(4096, '/') + "nvmet/hosts/x")), ENAMETOOLONG);
  int last = 0;
  std::string subsystem;
  for (std::size_t made = 0; last == 0 && made <= Tree::kNodesMax; ++made) {
    if (made % 100 == 0) subsystem = "nvmet/subsystems/s" + std::to_string(made);
    last = code(b.tree.mkdir(made % 100 == 0 ? subsystem
                                             : subsystem + "/namespaces/" + std::to_string(made)));
  }
  EXPECT_EQ(last, ENOSPC);
  EXPECT_GE(b.tree.tally().nodes, Tree::kNodesMax);
  EXPECT_LE(b.tree.tally().nodes, Tree::kNodesMax + 2);  // A subsystem has two groups.
  EXPECT_EQ(code(b.tree.rmdir("nvmet/subsystems/s0/namespaces/1")), 0);
  EXPECT_EQ(code(b.tree.mkdir("nvmet/hosts/h")),
            b.tree.tally().nodes > Tree::kNodesMax ? ENOSPC : 0);
}

TEST(TargetTree, ALongWriteIsCutAsAPageIs) {
  Bench b;
  ASSERT_EQ(code(b.tree.mkdir("nvmet/subsystems/s")), 0);
  ASSERT_EQ(code(b.tree.mkdir("nvmet/subsystems/s/namespaces/1")), 0);
  const std::string path = "nvmet/subsystems/s/namespaces/1/device_path";
  EXPECT_EQ(b.tree.write(path, std::string(5000, 'p')), 4095U);
  EXPECT_EQ(b.tree.read(path)->size(), 4096U);
}

TEST(TargetTree, AfterAllIsRemovedNothingIsKept) {
  Bench b;
  const Tally before = b.tree.tally();
  const std::vector<std::string> paths{"target/iscsi",
                                       "target/iscsi/t",
                                       "target/iscsi/t/tpgt_1",
                                       "target/iscsi/t/tpgt_1/acls/a",
                                       "target/core/rd_mcp_0",
                                       "target/core/rd_mcp_0/d",
                                       "target/core/rd_mcp_0/d/alua/g"};
  for (const std::string& path : paths) ASSERT_EQ(code(b.tree.mkdir(path)), 0) << path;
  for (auto path = paths.rbegin(); path != paths.rend(); ++path)
    ASSERT_EQ(code(b.tree.rmdir(*path)), 0) << *path;
  EXPECT_EQ(b.tree.tally().nodes, before.nodes);
  EXPECT_EQ(b.tree.tally().bytes, before.bytes);
}

TEST(TargetTree, AGroupOfPortsThatGoesLeavesItsLunsToTheDefault) {
  Bench b;
  const std::string device = "target/core/rd_mcp_0/d";
  const std::string group = "target/iscsi/t/tpgt_1";
  for (const std::string& path :
       {std::string("target/core/rd_mcp_0"), device, device + "/alua/g",
        std::string("target/iscsi"), std::string("target/iscsi/t"), group, group + "/lun/lun_0"})
    ASSERT_EQ(code(b.tree.mkdir(path)), 0) << path;
  ASSERT_EQ(code(b.tree.write(device + "/control", "rd_pages=4096,unknown=1")), 0);
  ASSERT_EQ(code(b.tree.write(device + "/enable", "1")), 0);
  ASSERT_EQ(code(b.tree.symlink(device, group + "/lun/lun_0/x")), 0);
  ASSERT_EQ(code(b.tree.write(group + "/lun/lun_0/alua_tg_pt_gp", "g")), 0);
  ASSERT_EQ(code(b.tree.rmdir(device + "/alua/g")), 0);
  ASSERT_EQ(code(b.tree.mkdir(device + "/alua/g")), 0);
  EXPECT_EQ(b.tree.read(device + "/alua/g/members"), "");
  EXPECT_EQ(b.tree.read(device + "/alua/default_tg_pt_gp/members"),
            std::string("iSCSI/t/tpgt_1/lun_0\n\0", 22));
  EXPECT_TRUE(b.tree.read(device + "/info")->contains("4096*4096  SG_table_count: 3"));
}

/// `resv_enable` of a namespace came with 6.13.
TEST(TargetTree, AttributesThatCameLaterAreHidden) {
  for (const auto& [version, is_there] : {std::pair(KernelVersion{}, false),
                                          {KernelVersion{6, 12}, false},
                                          {KernelVersion{6, 13}, true},
                                          {KernelVersion{7, 0}, true}}) {
    FakeHooks hooks;
    Tree tree(hooks);
    tree.use_kernel(version);
    tree.add("nvmet", kNvmet);
    ASSERT_EQ(code(tree.mkdir("nvmet/subsystems/s")), 0);
    ASSERT_EQ(code(tree.mkdir("nvmet/subsystems/s/namespaces/1")), 0);
    const std::string path = "nvmet/subsystems/s/namespaces/1/resv_enable";
    const auto names = tree.list("nvmet/subsystems/s/namespaces/1");
    EXPECT_EQ(std::ranges::count(*names, "resv_enable"), is_there ? 1 : 0);
    EXPECT_EQ(code(tree.write(path, "1")), is_there ? 0 : ENOENT);
    EXPECT_EQ(code(tree.stat(path)), is_there ? 0 : ENOENT);
  }
}

}  // namespace
}  // namespace verbatim::ulp::target_tree

#include "ulp/target/tree/live_tree.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

/// Refuses what it is told to, and notes what it was settled for.
class FakePart final : public TreePart {
 public:
  int on_make(const Node& directory) override { return directory.name == refused ? EINVAL : 0; }
  void settle(const Node* top, std::string_view changed) override {
    EXPECT_NE(top, nullptr);
    settled.emplace_back(changed);
  }
  std::string refused;
  std::vector<std::string> settled;
};

class LiveTreeTest : public testing::Test {
 protected:
  LiveTreeTest() {
    tree.add("target/core", core);
    tree.add("target/iscsi", iscsi);
  }
  ~LiveTreeTest() override { std::filesystem::remove_all(folder); }
  int ask(TreeRequest asked, const std::string& path, std::string_view second = {}) {
    return tree.ask(asked, path, second).code;
  }
  void make_target() {
    for (const char* const path :
         {"target/core/rd_mcp_0", "target/core/rd_mcp_0/d", "target/iscsi", "target/iscsi/t",
          "target/iscsi/t/tpgt_1", "target/iscsi/t/tpgt_1/lun/lun_0"})
      EXPECT_EQ(ask(TreeRequest::make, path), 0) << path;
    EXPECT_EQ(ask(TreeRequest::write, "target/core/rd_mcp_0/d/control", "rd_pages=16"), 0);
    EXPECT_EQ(ask(TreeRequest::write, "target/core/rd_mcp_0/d/enable", "1"), 0);
    EXPECT_EQ(ask(TreeRequest::link, "target/iscsi/t/tpgt_1/lun/lun_0/x",
                  "/sys/kernel/config/target/core/rd_mcp_0/d"),
              0);
  }
  void make_folder() {
    char name[] = "/tmp/verbatim-live-tree.XXXXXX";
    folder = mkdtemp(name);
    loop = *service::Loop::create([] { return TimeNs{0}; });
  }
  void open() {
    make_folder();
    ASSERT_TRUE(tree.open(*loop, folder + "/target", folder + "/kept"));
  }

  std::string folder;
  std::unique_ptr<service::Loop> loop;
  FakePart core, iscsi;
  LiveTree tree;
};

TEST_F(LiveTreeTest, PartsAreSettledForWhatHasChanged) {
  make_target();
  iscsi.settled.clear();
  ask(TreeRequest::write, "target/iscsi/t/tpgt_1/enable", "1");
  EXPECT_EQ(iscsi.settled, std::vector<std::string>{"t/tpgt_1"});
  ask(TreeRequest::write, "target/iscsi/t/tpgt_1/enable", "1");
  EXPECT_EQ(iscsi.settled.size(), 1u) << "nothing has changed";
}

TEST_F(LiveTreeTest, WhoUsesADeviceIsSettledWithIt) {
  make_target();
  iscsi.settled.clear();
  ask(TreeRequest::write, "target/core/rd_mcp_0/d/attrib/emulate_write_cache", "1");
  EXPECT_EQ(iscsi.settled, std::vector<std::string>{"t/tpgt_1/lun/lun_0/x"});
}

TEST_F(LiveTreeTest, ADeviceIsSettledWithoutTheUserThatHasLeft) {
  make_target();
  core.settled.clear();
  EXPECT_EQ(ask(TreeRequest::unlink, "target/iscsi/t/tpgt_1/lun/lun_0/x"), 0);
  EXPECT_EQ(core.settled, std::vector<std::string>{"rd_mcp_0/d"});
}

TEST_F(LiveTreeTest, WhatAPartRefusesIsNotThere) {
  ASSERT_EQ(ask(TreeRequest::make, "target/iscsi"), 0);
  iscsi.refused = "t";
  EXPECT_EQ(ask(TreeRequest::make, "target/iscsi/t"), EINVAL);
  EXPECT_EQ(ask(TreeRequest::remove, "target/iscsi/t"), ENOENT);
}

TEST_F(LiveTreeTest, TheCopyHasTheTreesShape) {
  open();
  make_target();
  const std::string config = folder + "/target/config/target/";
  struct stat info{};
  ASSERT_EQ(stat((config + "iscsi/t/tpgt_1/lun/lun_0/x/control").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0200u);
  EXPECT_EQ(info.st_size, 4096);
  EXPECT_EQ(std::filesystem::read_symlink(config + "iscsi/t/tpgt_1/lun/lun_0/x"),
            "../../../../../../target/core/rd_mcp_0/d");
  EXPECT_EQ(ask(TreeRequest::change_mode, "target/version", "256"), 0);
  ASSERT_EQ(stat((config + "version").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0400u);
  EXPECT_EQ(ask(TreeRequest::remove, "target/core/rd_mcp_0/d"), EBUSY);
  EXPECT_EQ(ask(TreeRequest::unlink, "target/iscsi/t/tpgt_1/lun/lun_0/x"), 0);
  EXPECT_EQ(ask(TreeRequest::remove, "target/core/rd_mcp_0/d"), 0);
  EXPECT_FALSE(std::filesystem::exists(config + "core/rd_mcp_0/d"));
}

TEST_F(LiveTreeTest, AConnectionThatHasOpenedAnAttributeIsADescriptor) {
  open();
  const UniqueFd program(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder + "/target/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(connect(program.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto say = [&](std::string_view words) {
    send(program.get(), words.data(), words.size(), 0);
    loop->turn(0);
    loop->turn(0);
    struct {
      int code = -1;
      char text[64]{};
    } answer;
    const ssize_t got = recv(program.get(), &answer, sizeof answer - 1, MSG_DONTWAIT);
    return got < 4 ? std::string("nothing") : std::to_string(answer.code) + " " + answer.text;
  };
  EXPECT_EQ(say(std::string_view("gtarget/dbroot")), "0 /etc/target\n");
  EXPECT_EQ(say("gtarget/nothing"), std::to_string(ENOENT) + " ");
  EXPECT_EQ(say("otarget/version"), std::to_string(EACCES) + " ");
  EXPECT_EQ(say("otarget"), std::to_string(EISDIR) + " ");
  EXPECT_EQ(say("?target"), std::to_string(ENOSYS) + " ");
  EXPECT_EQ(say("otarget/dbroot"), "0 ");
  EXPECT_EQ(say("/tmp\n"), "0 5");
  EXPECT_EQ(say("gtarget/dbroot"), std::to_string(ENOENT) + " ") << "is written now: no folder";
}

TEST_F(LiveTreeTest, WithoutAHomeAndInALongFolderItServes) {
  make_folder();
  std::ofstream(folder + "/file").put('x');
  const std::string longest = folder + "/" + std::string(120, 'x');
  ASSERT_TRUE(tree.open(*loop, longest, folder + "/file/kept"));
  EXPECT_TRUE(std::filesystem::is_directory(longest + "/rtslib/backup"));
  EXPECT_EQ(ask(TreeRequest::make, "target/iscsi"), 0);
}

}  // namespace
}  // namespace verbatim::ulp::target

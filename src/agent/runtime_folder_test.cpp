#include "agent/runtime_folder.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace verbatim::agent {
namespace {

class RuntimeFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "verbatim-runtime-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    base_ = folder;
    setenv("XDG_RUNTIME_DIR", base_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(base_);
    unsetenv("XDG_RUNTIME_DIR");
  }
  std::string base_;
};

TEST_F(RuntimeFolderTest, IsPrivateAndNamesItsNamespace) {
  const auto folder = RuntimeFolder::open();
  ASSERT_TRUE(folder) << folder.error().text;
  struct stat info{};
  const int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::uint64_t space = 0;
  socklen_t length = sizeof space;
  ASSERT_EQ(getsockopt(any, SOL_SOCKET, SO_NETNS_COOKIE, &space, &length), 0);
  close(any);
  EXPECT_EQ(folder->path(), base_ + "/verbatim/net-" + std::to_string(space));
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  folder->remove_if_empty();
  EXPECT_TRUE(std::filesystem::is_empty(base_));
}

TEST_F(RuntimeFolderTest, AFolderThatOthersMayWriteIsRefused) {
  ASSERT_EQ(mkdir((base_ + "/verbatim").c_str(), 0700), 0);
  ASSERT_EQ(chmod((base_ + "/verbatim").c_str(), 0777), 0);
  const auto folder = RuntimeFolder::open();
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, EPERM);
}

TEST_F(RuntimeFolderTest, ALinkInItsPlaceIsRefused) {
  ASSERT_EQ(symlink("/tmp", (base_ + "/verbatim").c_str()), 0);
  EXPECT_EQ(RuntimeFolder::open().error().code, EPERM);
}

TEST_F(RuntimeFolderTest, AMissingRuntimeDirectoryFallsBackToTheTemporaryOne) {
  setenv("XDG_RUNTIME_DIR", (base_ + "/missing").c_str(), 1);
  const auto folder = RuntimeFolder::open();
  ASSERT_TRUE(folder) << folder.error().text;
  EXPECT_TRUE(folder->path().starts_with("/tmp/verbatim-" + std::to_string(geteuid()) + "/"));
  folder->remove_if_empty();
}

TEST_F(RuntimeFolderTest, SocketsWorkAtAPathOfAnyLength) {
  const std::string deep = base_ + "/" + std::string(150, 'x');
  ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
  const auto listening = listen_at(deep + "/a.sock");
  ASSERT_TRUE(listening) << listening.error().text;
  EXPECT_TRUE(std::filesystem::is_socket(deep + "/a.sock"));
  EXPECT_TRUE(connect_to(deep + "/a.sock"));
}

TEST_F(RuntimeFolderTest, NobodyListensIsToldApart) {
  EXPECT_EQ(connect_to(base_ + "/a.sock").error().code, ENOENT);
  listen_at(base_ + "/a.sock")->reset();
  EXPECT_EQ(connect_to(base_ + "/a.sock").error().code, ECONNREFUSED);
}

TEST_F(RuntimeFolderTest, ALockIsExclusiveAndItsFileMayBeRemoved) {
  const std::string path = base_ + "/lock";
  auto first = LockFile::take(path, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(LockFile::take(path, 0).error().code, EWOULDBLOCK);
  // Who waits for a file that is then removed gets a new one, and the next sees that it is taken.
  std::jthread waiting([&] {
    auto second = LockFile::take(path, 10 * kSecond);
    EXPECT_TRUE(second);
    EXPECT_EQ(LockFile::take(path, 0).error().code, EWOULDBLOCK);
  });
  first->remove();
}

TEST(NodeName, OnlyPlainNamesAreNames) {
  for (const std::string name : {"a", "local", "host-1.rack_2", "7"}) {
    EXPECT_TRUE(check_node_name(name)) << name;
  }
  for (const std::string name : {"", ".", "..", "-a", "a/b", "a b", "\xc3\xa4"}) {
    EXPECT_FALSE(check_node_name(name)) << name;
  }
  EXPECT_FALSE(check_node_name(std::string(64, 'a')));
}

}  // namespace
}  // namespace verbatim::agent

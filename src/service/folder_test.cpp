#include "service/folder.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace verbatim::service {
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

/// A directory that everyone may write to, with the sticky bit, like /tmp; the user has no other.
class TemporaryFolderTest : public RuntimeFolderTest {
 protected:
  void SetUp() override {
    RuntimeFolderTest::SetUp();
    unsetenv("XDG_RUNTIME_DIR");
    ASSERT_EQ(chmod(base_.c_str(), 01777), 0);
  }
  std::string candidate(int number) const {
    const std::string first = base_ + "/verbatim-" + std::to_string(geteuid());
    return number == 0 ? first : first + "." + std::to_string(number);
  }
  /// Returns the candidate in use; empty if there is none.
  std::string opened() const {
    const auto folder = RuntimeFolder::open(base_);
    return folder ? std::filesystem::path(folder->path()).parent_path().string() : std::string();
  }
};

TEST_F(TemporaryFolderTest, TheFirstNameServes) { EXPECT_EQ(opened(), candidate(0)); }

TEST_F(TemporaryFolderTest, NamesThatOthersHaveTakenArePassedOver) {
  ASSERT_EQ(symlink("/tmp", candidate(0).c_str()), 0);
  ASSERT_EQ(mkdir(candidate(1).c_str(), 0700), 0);
  ASSERT_EQ(chmod(candidate(1).c_str(), 0777), 0);
  ASSERT_EQ(symlink("nothing", candidate(2).c_str()), 0);
  ASSERT_EQ(mknod(candidate(3).c_str(), S_IFREG | 0600, 0), 0);
  EXPECT_EQ(opened(), candidate(4));
  EXPECT_EQ(opened(), candidate(4));
}

TEST_F(TemporaryFolderTest, AFolderOfAnotherUserIsPassedOver) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(mkdir(candidate(0).c_str(), 0700), 0);
  ASSERT_EQ(chown(candidate(0).c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(opened(), candidate(1));
}

TEST_F(TemporaryFolderTest, WhereEveryNameIsTakenTheWayOutIsTold) {
  for (int number = 0; number < RuntimeFolder::kCandidates; ++number) {
    ASSERT_EQ(symlink("/tmp", candidate(number).c_str()), 0);
  }
  const auto folder = RuntimeFolder::open(base_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, EPERM);
  EXPECT_TRUE(folder.error().text.contains("XDG_RUNTIME_DIR")) << folder.error().text;
}

TEST_F(TemporaryFolderTest, ANameThatBecomesFreeMovesNobody) {
  ASSERT_EQ(symlink("/tmp", candidate(0).c_str()), 0);
  EXPECT_EQ(opened(), candidate(1));
  ASSERT_EQ(unlink(candidate(0).c_str()), 0);
  EXPECT_EQ(opened(), candidate(1));
  // Nor one that another user takes meanwhile.
  ASSERT_EQ(symlink("/tmp", candidate(0).c_str()), 0);
  EXPECT_EQ(opened(), candidate(1));
}

TEST_F(TemporaryFolderTest, AllWhoOpenAtOnceFindTheSame) {
  ASSERT_EQ(symlink("/tmp", candidate(0).c_str()), 0);
  for (int round = 0; round < 50; ++round) {
    std::array<std::string, 4> found;
    {
      std::vector<std::jthread> threads;
      for (std::string& one : found) threads.emplace_back([&] { one = opened(); });
    }
    for (const std::string& one : found) EXPECT_EQ(one, candidate(1));
    std::filesystem::remove_all(candidate(1));
  }
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
  // A process that waits for a file that is then removed gets a new one, and the next sees that it
  // is taken.
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

TEST(PlainPath, IsWhatASocketsAddressHasRoomFor) {
  EXPECT_TRUE(check_plain_path(std::string(107, 'x')));
  const auto refused = check_plain_path(std::string(108, 'x'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENAMETOOLONG);
  EXPECT_NE(refused.error().text.find("set XDG_RUNTIME_DIR"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::service

#include "service/keeper/keeper.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace verbatim::service {
namespace {

class KeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "verbatim-keeper-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    Keeper::end(path());
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ + "/keep"; }
  std::string folder_;
};

std::uint64_t value_of(int event) {
  eventfd_t value = 0;
  return eventfd_read(event, &value) == 0 ? value : 0;
}

TEST_F(KeeperTest, DescriptorsOutliveADaemonThatIsKilled) {
  const pid_t daemon = fork();
  if (daemon == 0) {
    const int one = eventfd(7, 0), two = eventfd(9, 0);
    const std::pair<std::string, int> mine[] = {{"one", one}, {"two", two}};
    if (!Keeper::start(path(), mine)) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto next = Keeper::ask(path());
  ASSERT_TRUE(next) << next.error().text;
  ASSERT_EQ(next->size(), 2u);
  EXPECT_EQ((*next)[0].name, "one");
  EXPECT_EQ((*next)[1].name, "two");
  EXPECT_EQ(value_of((*next)[0].fd.get()), 7u);
  EXPECT_EQ(value_of((*next)[1].fd.get()), 9u);
}

TEST_F(KeeperTest, OneThatAsksAndDiesChangesNothing) {
  const UniqueFd event(eventfd(1, 0));
  const std::pair<std::string, int> mine[] = {{"event", event.get()}};
  ASSERT_TRUE(Keeper::start(path(), mine));
  for (int i = 0; i < 3; ++i) {
    const auto asked = Keeper::ask(path());
    ASSERT_TRUE(asked) << asked.error().text;
  }
}

TEST_F(KeeperTest, TheNextKeeperTakesOver) {
  UniqueFd event(eventfd(5, 0));
  const std::pair<std::string, int> mine[] = {{"event", event.get()}};
  ASSERT_TRUE(Keeper::start(path(), mine));
  ASSERT_TRUE(Keeper::start(path(), mine));
  event.reset();
  const auto second = Keeper::ask(path());
  ASSERT_TRUE(second) << second.error().text;
  ASSERT_EQ(second->size(), 1u);
  EXPECT_EQ(value_of((*second)[0].fd.get()), 5u);
}

TEST_F(KeeperTest, ItsEndClosesWhatItHas) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd mine(ends[0]);
  const std::pair<std::string, int> kept[] = {{"other end", ends[1]}};
  ASSERT_TRUE(Keeper::start(path(), kept));
  close(ends[1]);
  char byte = 0;
  EXPECT_LT(recv(mine.get(), &byte, 1, MSG_DONTWAIT), 0) << "it is kept open";
  EXPECT_TRUE(Keeper::end(path()));
  EXPECT_EQ(recv(mine.get(), &byte, 1, MSG_DONTWAIT), 0) << "it is closed";
  EXPECT_FALSE(Keeper::end(path()));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace verbatim::service

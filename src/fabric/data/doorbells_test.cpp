#include "fabric/data/doorbells.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::fabric {
namespace {

struct Folder {
  Folder() { path = mkdtemp(name.data()); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::array<char, 32> name{"/tmp/verbatim-bells.XXXXXX"};
  std::string path;
};

bool is_readable(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&ready, 1, 0) == 1;
}

TEST(FabricDoorbells, RingsUntilItIsSilenced) {
  const Folder folder;
  const Doorbells doorbells = std::move(Doorbells::open(folder.path).value());
  const UniqueFd bell = std::move(doorbells.listen(7).value());
  const UniqueFd other = std::move(doorbells.listen(8).value());
  EXPECT_FALSE(is_readable(bell.get()));
  // More often than a socket's queue is long.
  for (int i = 0; i < 5000; ++i) doorbells.ring(7);
  EXPECT_TRUE(is_readable(bell.get()));
  EXPECT_FALSE(is_readable(other.get()));
  Doorbells::silence(bell.get());
  EXPECT_FALSE(is_readable(bell.get()));
  doorbells.ring(7);
  EXPECT_TRUE(is_readable(bell.get()));
}

TEST(FabricDoorbells, TakesThePlaceOfOneWhoHasEnded) {
  const Folder folder;
  const Doorbells doorbells = std::move(Doorbells::open(folder.path).value());
  const UniqueFd dead = std::move(doorbells.listen(7).value());
  const UniqueFd bell = std::move(doorbells.listen(7).value());
  doorbells.ring(7);
  EXPECT_FALSE(is_readable(dead.get()));
  EXPECT_TRUE(is_readable(bell.get()));
  doorbells.remove(7);
  doorbells.ring(7);  // Nobody is there: nothing happens.
}

TEST(FabricDoorbells, NetworkNamespacesDoNotPartThem) {
  const Folder folder;
  const Doorbells doorbells = std::move(Doorbells::open(folder.path).value());
  const UniqueFd bell = std::move(doorbells.listen(7).value());
  const pid_t child = fork();
  if (child == 0) {
    // An ordinary user gets one of his own in a user namespace of his own.
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(77);
    const auto there = Doorbells::open(folder.path);
    if (!there) _exit(1);
    there->ring(7);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_readable(bell.get()));
}

TEST(FabricDoorbells, RingsByAPathOfAnyLength) {
  const Folder folder;
  const std::string deep = folder.path + "/" + std::string(150, 'x');
  ASSERT_TRUE(std::filesystem::create_directory(deep));
  const Doorbells doorbells = std::move(Doorbells::open(deep).value());
  const UniqueFd bell = std::move(doorbells.listen(7).value());
  doorbells.ring(7);
  EXPECT_TRUE(is_readable(bell.get()));
}

TEST(FabricDoorbells, RefusesAFolderThatIsNotThere) {
  const Doorbells doorbells = std::move(Doorbells::open("/tmp/verbatim-not-there").value());
  EXPECT_EQ(doorbells.listen(7).error().code, ENOENT);
}

}  // namespace
}  // namespace verbatim::fabric

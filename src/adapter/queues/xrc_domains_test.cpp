#include <thread>

#include <fcntl.h>
#include <stdlib.h>

#include "adapter/adapter_test_util.h"

/// XRC domains of files, and the locks for opening them.
namespace verbatim::adapter {
namespace {

class XrcDomainTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(file_); }
  void TearDown() override {
    unlink(path_.c_str());
    unlink(TestNode::locks_path().c_str());
  }
  Result<XrcDomain> open(bool create = true, bool exclusive = false) {
    return queue_owner_.adapter->xrc_domains().open(
        {.fd = file_.get(), .create = create, .exclusive = exclusive});
  }
  /// Takes every lock, as another program.
  static UniqueFd lock_all() {
    UniqueFd fd(::open(TestNode::locks_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct flock all{};
    all.l_type = F_WRLCK;
    EXPECT_EQ(fcntl(fd.get(), F_OFD_SETLK, &all), 0);
    return fd;
  }

  TestNode queue_owner_{1, 0x4000};
  std::string path_ = testing::TempDir() + "verbatim-xrc-domain-XXXXXX";
  const UniqueFd file_{mkstemp(path_.data())};
};

TEST_F(XrcDomainTest, AFileHasOneDomain) {
  EXPECT_EQ(open(false).error().code, EAGAIN);
  const auto first = open();
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(open(false), *first);
  EXPECT_EQ(open(true, true).error().code, EINVAL);
  EXPECT_TRUE(queue_owner_.adapter->xrc_domains().close(*first));
  EXPECT_TRUE(queue_owner_.adapter->xrc_domains().close(*first));
  EXPECT_EQ(open(false).error().code, EAGAIN);
}

TEST_F(XrcDomainTest, AnotherProgramsDomainIsSeen) {
  TestNode other(2, 0x8000);
  const auto theirs = other.adapter->xrc_domains().open({.fd = file_.get(), .create = true});
  ASSERT_TRUE(theirs);
  EXPECT_EQ(open(true, true).error().code, EINVAL);
  EXPECT_TRUE(open(false));
}

/// File systems reuse free inode numbers for new files: the domain keeps its own in use.
TEST_F(XrcDomainTest, TheFilesInodeIsNoOtherFilesWhileItHasADomain) {
  struct stat before{}, after{};
  {
    std::string path = testing::TempDir() + "verbatim-xrc-domain-XXXXXX";
    const UniqueFd file(mkstemp(path.data()));
    ASSERT_EQ(fstat(file.get(), &before), 0);
    ASSERT_TRUE(queue_owner_.adapter->xrc_domains().open({.fd = file.get(), .create = true}));
    unlink(path.c_str());
  }
  for (int i = 0; i < 20; ++i) {
    std::string path = testing::TempDir() + "verbatim-xrc-domain-XXXXXX";
    const UniqueFd file(mkstemp(path.data()));
    unlink(path.c_str());
    ASSERT_EQ(fstat(file.get(), &after), 0);
    EXPECT_NE(before.st_ino, after.st_ino);
  }
}

TEST_F(XrcDomainTest, OtherCallsGoOnWhileOneWaitsForAnotherProgram) {
  auto others = lock_all();
  std::atomic<bool> is_open = false;
  std::jthread opening([&] {
    const auto opened = open();
    EXPECT_TRUE(opened) << opened.error().text;
    is_open = true;
  });
  std::vector<std::byte> memory(4096);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  // Long enough for the thread to wait, and for the calls that it must not delay.
  for (const TimeNs end = monotonic_now() + 200 * kMillisecond; monotonic_now() < end;) {
    const TimeNs before = monotonic_now();
    const auto key = queue_owner_.adapter->memory().register_memory({.address = address,
                                                                     .length = memory.size(),
                                                                     .iova = address,
                                                                     .access = region::kLocalWrite,
                                                                     .pd = queue_owner_.pd});
    ASSERT_TRUE(key) << key.error().text;
    EXPECT_TRUE(queue_owner_.adapter->memory().deregister_memory(*key));
    EXPECT_LT(elapsed(before, monotonic_now()), 5 * kSecond);
  }
  EXPECT_FALSE(is_open);
  others.reset();
}

}  // namespace
}  // namespace verbatim::adapter

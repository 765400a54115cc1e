#include "region/adoption/movable.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "region/adoption/memory_file_test_util.h"
#include "region/adoption/threads.h"

/// What is adopted, and what never is.
namespace verbatim::region {
namespace {

TEST(Movable, WhatIsNotPlainPrivateMemoryStaysWhereItIs) {
  const auto file = make_file();
  const Pages shared(2, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_EQ(file->adopt(shared.range()), 0u);
  const auto page_of = [](const void* place) {
    const std::uint64_t begin = address_of(place) / kPage * kPage;
    return PageRange{begin, begin + kPage};
  };
  int on_the_stack = 0;
  EXPECT_EQ(file->adopt(page_of(&on_the_stack)), 0u);
  EXPECT_EQ(file->adopt(page_of(&errno)), 0u);
  EXPECT_EQ(file->adopt({kPage, kPage}), 0u);
}

/// Properties that the memory of a file would not have.
TEST(Movable, AdvisedLockedAndKeyedMemoryStaysWhereItIs) {
  const auto file = make_file();
  const auto stays = [&](const char* what, auto change) {
    const Pages pages(4);
    if (!change(pages.data(), pages.length())) return;  // The kernel does not have it.
    EXPECT_EQ(file->adopt(pages.range()), 0u) << what;
  };
  for (const int advice : {MADV_DONTFORK, MADV_DONTDUMP, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
                           MADV_MERGEABLE, MADV_WIPEONFORK}) {
    stays("madvise", [advice](void* at, std::size_t n) { return madvise(at, n, advice) == 0; });
  }
  // Not mlock(3): the address sanitizer's does nothing.
  stays("mlock", [](void* at, std::size_t n) { return syscall(SYS_mlock, at, n) == 0; });
  stays("pkey", [](void* at, std::size_t n) {
    const int key = pkey_alloc(0, 0);
    return key > 0 && pkey_mprotect(at, n, PROT_READ | PROT_WRITE, key) == 0;
  });
  stays("mbind", [](void* at, std::size_t n) {
    const unsigned long nodes = 1;
    constexpr int kBind = 2;
    return syscall(SYS_mbind, at, n, kBind, &nodes, 8 * sizeof nodes, 0) == 0;
  });
}

TEST(Movable, AThreadsStackAndControlBlockStayWhereTheyAre) {
  const auto file = make_file();
  static thread_local std::array<std::byte, 1 << 16> own;
  std::atomic<std::byte*> shown[2] = {};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    alignas(64) std::array<std::byte, 1 << 16> on_the_stack;
    own[0] = on_the_stack[0] = std::byte{1};
    shown[0] = own.data();
    shown[1] = on_the_stack.data();
    while (!stop) std::this_thread::yield();
  });
  for (auto& place : shown) {
    while (place == nullptr) std::this_thread::yield();
    const std::uint64_t begin = address_of(place) / kPage * kPage + kPage;
    EXPECT_EQ(file->adopt({begin, begin + kPage}), 0u);
  }
  stop = true;
  thread.join();
}

TEST(Movable, NothingIsAdoptedWhilePagesMayBePinned) {
  const auto file = make_file();
  const Pages pages(4);
  {
    char name[] = "/tmp/verbatim-pinned-XXXXXX";
    const UniqueFd buffered(mkstemp(name));
    const UniqueFd direct(open(name, O_RDWR | O_DIRECT | O_CLOEXEC));
    unlink(name);
    if (!direct) GTEST_SKIP() << "no direct I/O in /tmp";
    EXPECT_EQ(file->adopt(pages.range()), 0u);
  }
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  // It comes back whatever descriptors there are by then.
  const UniqueFd device(open("/dev/kmsg", O_RDONLY | O_CLOEXEC));
  file->release(pages.range());
  EXPECT_TRUE(is_anonymous(pages.address()));
}

/// A futex that is not private is found by address in private memory, by offset in a file's.
class Sleeper {
 public:
  explicit Sleeper(std::uint32_t* word) : word_(word), thread_([this] { sleep(); }) {
    while (!sleeps()) std::this_thread::yield();
  }
  ~Sleeper() { join(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void wake() {
    __atomic_store_n(word_, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  bool sleeps() const {
    std::ifstream call("/proc/self/task/" + std::to_string(id_) + "/syscall");
    std::string number;
    return call >> number && number == std::to_string(SYS_futex);
  }

 private:
  void sleep() {
    id_ = gettid();
    while (__atomic_load_n(word_, __ATOMIC_SEQ_CST) == 0) {
      syscall(SYS_futex, word_, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    }
  }
  std::uint32_t* const word_;
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

TEST(Movable, AThreadThatSleepsAtAWordOfThePagesWakes) {
  const auto file = make_file();
  const Pages pages(4);
  auto* const word = reinterpret_cast<std::uint32_t*>(pages.data() + 100);
  for (const bool wakes_in_file : {true, false}) {
    *word = 0;
    Sleeper sleeper(word);
    ASSERT_EQ(file->adopt(pages.range()), pages.length());
    if (!wakes_in_file) file->release(pages.range());
    while (!sleeper.sleeps()) std::this_thread::yield();
    sleeper.wake();
    sleeper.join();
    if (wakes_in_file) file->release(pages.range());
    EXPECT_TRUE(is_anonymous(pages.address()));
  }
}

}  // namespace
}  // namespace verbatim::region

#include "region/adoption/memory_file.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/page.h"

namespace verbatim::region {
namespace {

const std::size_t kPage = page_bytes();

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uint64_t>(place); }

/// Anonymous memory filled with different bytes.
class Pages {
 public:
  explicit Pages(std::size_t pages, int flags = MAP_PRIVATE | MAP_ANONYMOUS)
      : length_(pages * kPage),
        place_(
            static_cast<std::byte*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, flags, -1, 0))) {
    fill(1);
  }
  ~Pages() { munmap(place_, length_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void fill(std::uint32_t seed) {
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < length_; i += 4) {
      const auto word = static_cast<std::uint32_t>(random());
      std::memcpy(place_ + i, &word, sizeof word);
    }
  }
  std::vector<std::byte> copy() const { return {place_, place_ + length_}; }
  std::byte* data() const { return place_; }
  std::uint64_t address() const { return address_of(place_); }
  std::size_t length() const { return length_; }

 private:
  std::size_t length_;
  std::byte* place_;
};

std::unique_ptr<MemoryFile> make_file(const MemoryFileOptions& options = {}) {
  auto made = MemoryFile::create(options);
  EXPECT_TRUE(made) << made.error().text;
  return std::move(*made);
}

/// Returns what a peer sees that maps the file.
std::vector<std::byte> bytes_in_file(const MemoryFile& file, const Extent& extent) {
  std::vector<std::byte> bytes(extent.length);
  EXPECT_EQ(pread(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(extent.offset)),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

std::uint64_t total(std::span<const Extent> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Extent& one) { return sum + one.length; });
}

bool is_anonymous(std::uint64_t address) {
  const auto mappings = mappings_of(PageRange{address, address + kPage});
  return mappings && mappings->size() == 1 && !mappings->front().shared &&
         mappings->front().file.inode == 0;
}

TEST(MemoryFile, AdoptedBytesAreTheSameForTheProgramAndInTheFile) {
  const auto file = make_file();
  const Pages pages(37);
  const auto before = pages.copy();
  const auto extents = file->adopt(pages.address(), pages.length());
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].address, pages.address());
  EXPECT_EQ(extents[0].length, pages.length());
  EXPECT_EQ(pages.copy(), before);
  EXPECT_EQ(bytes_in_file(*file, extents[0]), before);
}

TEST(MemoryFile, WhatIsWrittenOnEitherSideIsSeenOnTheOther) {
  const auto file = make_file();
  const Pages pages(2);
  const auto extents = file->adopt(pages.address(), pages.length());
  ASSERT_EQ(extents.size(), 1u);
  pages.data()[5000] = std::byte{0x5a};
  EXPECT_EQ(bytes_in_file(*file, extents[0])[5000], std::byte{0x5a});
  const std::byte peers{0xa5};
  ASSERT_EQ(pwrite(file->fd(), &peers, 1, static_cast<off_t>(extents[0].offset + 77)), 1);
  EXPECT_EQ(pages.data()[77], peers);
}

TEST(MemoryFile, ReleasedMemoryIsPrivateAgainWithItsBytes) {
  const auto file = make_file();
  Pages pages(1030);  // More than one chunk.
  const auto extents = file->adopt(pages.address(), pages.length());
  EXPECT_EQ(total(extents), pages.length());
  pages.fill(2);
  const auto before = pages.copy();
  file->release(extents);
  EXPECT_EQ(pages.copy(), before);
  EXPECT_TRUE(is_anonymous(pages.address()));
  ASSERT_EQ(madvise(pages.data(), pages.length(), MADV_DONTNEED), 0);
  EXPECT_EQ(pages.data()[100], std::byte{0}) << "allocators rely on fresh zero pages";
  struct stat status{};
  ASSERT_EQ(fstat(file->fd(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0) << "the file keeps no memory";
}

TEST(MemoryFile, PagesThatARangeOnlyTouchesAreAdoptedWhole) {
  const auto file = make_file();
  const Pages pages(3);
  const auto extents = file->adopt(pages.address() + kPage + 100, 8);
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].address, pages.address() + kPage);
  EXPECT_EQ(extents[0].length, kPage);
  EXPECT_TRUE(is_anonymous(pages.address()));
}

TEST(MemoryFile, OverlappingUsersShareThePagesUntilTheLastHasGone) {
  const auto file = make_file();
  const Pages pages(10);
  const auto before = pages.copy();
  const auto first = file->adopt(pages.address(), 6 * kPage);
  const auto second = file->adopt(pages.address() + 4 * kPage, 6 * kPage);
  ASSERT_EQ(total(second), 6 * kPage);
  EXPECT_EQ(second[0].offset, first[0].offset + 4 * kPage) << "the same pages of the file";
  file->release(first);
  EXPECT_TRUE(is_anonymous(pages.address() + 3 * kPage));
  EXPECT_FALSE(is_anonymous(pages.address() + 4 * kPage));
  file->release(second);
  EXPECT_TRUE(is_anonymous(pages.address() + 4 * kPage));
  EXPECT_EQ(pages.copy(), before);
}

TEST(MemoryFile, SeveralMappingsAndTheHolesBetweenThem) {
  const auto file = make_file();
  const Pages pages(9);
  ASSERT_EQ(mprotect(pages.data() + 3 * kPage, kPage, PROT_READ), 0);
  ASSERT_EQ(munmap(pages.data() + 6 * kPage, kPage), 0);
  const auto extents = file->adopt(pages.address(), pages.length());
  ASSERT_EQ(extents.size(), 3u);
  EXPECT_EQ(extents[0].length, 3 * kPage);
  EXPECT_EQ(extents[1].address, pages.address() + 4 * kPage);
  EXPECT_EQ(extents[1].length, 2 * kPage);
  EXPECT_EQ(extents[2].address, pages.address() + 7 * kPage);
  EXPECT_EQ(extents[2].length, 2 * kPage);
}

TEST(MemoryFile, WhatIsNotPrivateAnonymousStaysWhereItIs) {
  const auto file = make_file();
  const Pages shared(2, MAP_SHARED | MAP_ANONYMOUS);
  EXPECT_TRUE(file->adopt(shared.address(), shared.length()).empty());
  int on_the_stack = 0;
  EXPECT_TRUE(file->adopt(address_of(&on_the_stack), sizeof on_the_stack).empty());
  EXPECT_TRUE(file->adopt(~std::uint64_t{0} - 100, 100).empty());
  EXPECT_TRUE(file->adopt(kPage, 0).empty());
}

TEST(MemoryFile, AThreadsOwnControlBlockStaysWhereItIs) {
  const auto file = make_file();
  EXPECT_TRUE(file->adopt(address_of(&errno), sizeof errno).empty());
}

TEST(MemoryFile, WhatTheProgramHasUnmappedIsForgotten) {
  const auto file = make_file();
  auto* const place = static_cast<std::byte*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto extents = file->adopt(address_of(place), 4 * kPage);
  ASSERT_EQ(munmap(place, 4 * kPage), 0);
  // The addresses are reused for other memory.
  auto* const other = static_cast<std::byte*>(mmap(place, 4 * kPage, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  other[0] = std::byte{9};
  const auto others = file->adopt(address_of(other), 4 * kPage);
  EXPECT_NE(others[0].offset, extents[0].offset) << "the old bytes are not the new memory";
  file->release(extents);
  EXPECT_EQ(other[0], std::byte{9});
  file->release(others);
  EXPECT_EQ(other[0], std::byte{9});
  munmap(other, 4 * kPage);
}

TEST(MemoryFile, WhatTheProgramHasMovedKeepsItsBytes) {
  const auto file = make_file();
  auto* place = static_cast<std::byte*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(place, 7, 4 * kPage);
  const auto extents = file->adopt(address_of(place), 4 * kPage);
  const Pages reserved(8);
  place = static_cast<std::byte*>(
      mremap(place, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, reserved.data()));
  ASSERT_NE(place, MAP_FAILED);
  file->release(extents);
  EXPECT_TRUE(is_anonymous(address_of(place)));
  EXPECT_EQ(std::vector(place, place + 4 * kPage), std::vector(4 * kPage, std::byte{7}));
}

TEST(MemoryFile, WhatTheProgramHasProtectedStaysSo) {
  const auto file = make_file();
  const Pages pages(4);
  const auto before = pages.copy();
  const auto extents = file->adopt(pages.address(), pages.length());
  ASSERT_EQ(mprotect(pages.data(), kPage, PROT_NONE), 0);
  ASSERT_EQ(mprotect(pages.data() + kPage, kPage, PROT_READ), 0);
  file->release(extents);
  const auto mappings = mappings_of(PageRange{pages.address(), pages.address() + 3 * kPage});
  ASSERT_EQ(mappings->size(), 3u);
  EXPECT_EQ(mappings->at(0).protection(), PROT_NONE);
  EXPECT_EQ(mappings->at(1).protection(), PROT_READ);
  EXPECT_EQ(mappings->at(2).protection(), PROT_READ | PROT_WRITE);
  ASSERT_EQ(mprotect(pages.data(), pages.length(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(pages.copy(), before);
}

TEST(MemoryFile, HeapMemoryGrowsAndIsFreedWhileItIsAdopted) {
  const auto file = make_file();
  auto* block = static_cast<unsigned char*>(std::malloc(1 << 20));
  for (int i = 0; i < 1 << 20; ++i) block[i] = static_cast<unsigned char>(i * 7);
  const auto extents = file->adopt(address_of(block), 1 << 20);
  ASSERT_FALSE(extents.empty());
  auto* const grown = static_cast<unsigned char*>(std::realloc(block, 8 << 20));
  ASSERT_NE(grown, nullptr);
  block = grown;
  for (int i = 0; i < 1 << 20; ++i) ASSERT_EQ(block[i], static_cast<unsigned char>(i * 7));
  file->release(extents);
  for (int i = 0; i < 1 << 20; ++i) ASSERT_EQ(block[i], static_cast<unsigned char>(i * 7));
  std::free(block);
}

/// Threads that count in words of the pages, and so detect a lost write.
class Writers {
 public:
  Writers(const Pages& pages, unsigned count) {
    std::memset(pages.data(), 0, pages.length());
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this, &pages, i] { write(pages, i); });
    }
  }
  ~Writers() { finish(); }
  /// Returns the number of lost writes.
  unsigned finish() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return lost_;
  }
  std::uint64_t rounds() const { return rounds_; }

 private:
  void write(const Pages& pages, unsigned own) {
    for (std::uint64_t round = 0; !stop_; ++round, ++rounds_) {
      for (std::size_t page = 0; page < pages.length(); page += kPage) {
        auto* const word = reinterpret_cast<volatile std::uint64_t*>(pages.data() + page) + own;
        if (*word != round) ++lost_;
        *word = round + 1;
      }
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<unsigned> lost_{0};
  std::atomic<std::uint64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

TEST(MemoryFile, ThreadsThatWriteMeanwhileLoseNothing) {
  const auto file = make_file();
  const Pages pages(64);
  Writers writers(pages, 3);
  for (int i = 0; i < 100; ++i) {
    const auto seen = writers.rounds();
    const auto extents = file->adopt(pages.address(), pages.length());
    if (extents.empty()) {
      writers.finish();
      GTEST_SKIP() << "this machine refuses userfaultfd";
    }
    while (writers.rounds() < seen + 4) std::this_thread::yield();
    file->release(extents);
  }
  EXPECT_EQ(writers.finish(), 0u);
}

/// A thread beside this one. After a join the kernel may still list it for a moment.
class Another {
 public:
  Another() : thread_([this] { runs(); }) {
    while (id_ == 0) std::this_thread::yield();
  }
  ~Another() {
    stop_ = true;
    thread_.join();
    const std::filesystem::path entry = "/proc/self/task/" + std::to_string(id_);
    while (std::filesystem::exists(entry)) std::this_thread::yield();
  }
  Another(const Another&) = delete;
  Another& operator=(const Another&) = delete;

 private:
  void runs() {
    id_ = gettid();
    while (!stop_) std::this_thread::yield();
  }
  std::atomic<pid_t> id_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Counts the runtime's own threads: ThreadSanitizer starts one with the program's first.
unsigned lasting_threads() {
  {
    const Another first;
  }
  const auto threads = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<unsigned>(std::distance(begin(threads), end(threads))) - 1;
}

TEST(MemoryFile, WithoutAFreezeOnlyProgramsOfOneThreadAreServed) {
  const auto file = make_file({.own_threads = lasting_threads(), .without_freeze = true});
  Pages pages(8);
  const auto before = pages.copy();
  const auto extents = file->adopt(pages.address(), pages.length());
  EXPECT_EQ(total(extents), pages.length());
  {
    const Another thread;
    const Pages more(8);
    EXPECT_TRUE(file->adopt(more.address(), more.length()).empty());
    file->release(extents);  // Cannot be moved back now: stays, with the right bytes.
    EXPECT_EQ(pages.copy(), before);
  }
  file->release(file->adopt(pages.address(), pages.length()));
  EXPECT_TRUE(is_anonymous(pages.address()));
  EXPECT_EQ(pages.copy(), before);
}

/// Runs a child, which exits with 0 if `check` succeeds there.
template <typename Check>
int in_forked_child(MemoryFile& file, Check check) {
  file.before_fork();
  const pid_t child = fork();
  if (child == 0) {
    file.in_child();
    _exit(check() ? 0 : 1);
  }
  file.in_parent();
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(MemoryFile, AForkedChildHasACopyOfItsOwn) {
  const auto file = make_file();
  const Pages pages(20);
  const auto before = pages.copy();
  const auto extents = file->adopt(pages.address(), pages.length());
  EXPECT_EQ(in_forked_child(*file,
                            [&] {
                              const bool same = pages.copy() == before;
                              std::memset(pages.data(), 0, pages.length());
                              return same;
                            }),
            0);
  EXPECT_EQ(pages.copy(), before) << "the child wrote to its parent's memory";
  file->release(extents);
  EXPECT_EQ(in_forked_child(*file, [&] { return pages.copy() == before; }), 0);
}

TEST(MemoryFile, AChildThatIsForkedWithoutHandlersCannotWriteToItsParent) {
  const auto file = make_file();
  const Pages pages(2);
  const auto before = pages.copy();
  const auto extents = file->adopt(pages.address(), pages.length());
  const pid_t child = fork();  // This test registers no handlers.
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // A sanitizer would turn the signal into an exit.
    pages.data()[0] = std::byte{1};
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(pages.copy(), before);
  file->release(extents);
}

}  // namespace
}  // namespace verbatim::region

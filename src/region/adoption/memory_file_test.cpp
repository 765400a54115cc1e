#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/adoption/memory_file_test_util.h"

namespace verbatim::region {
namespace {

/// Returns what a peer sees that maps the file.
std::vector<std::byte> bytes_in_file(const MemoryFile& file, const PageRange& pages) {
  std::vector<std::byte> bytes(pages.length());
  EXPECT_EQ(pread(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(pages.begin)),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

std::uint64_t blocks_of(const MemoryFile& file) {
  struct stat status{};
  EXPECT_EQ(fstat(file.fd(), &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks);
}

std::size_t count_mappings() { return mappings_of(PageRange{0, ~std::uint64_t{0}})->size(); }

TEST(MemoryFile, AdoptedBytesAreTheSameForTheProgramAndInTheFile) {
  const auto file = make_file();
  const Pages pages(37);
  const auto before = pages.copy();
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  EXPECT_EQ(pages.copy(), before);
  EXPECT_EQ(bytes_in_file(*file, pages.range()), before);
}

TEST(MemoryFile, WhatIsWrittenOnEitherSideIsSeenOnTheOther) {
  const auto file = make_file();
  const Pages pages(2);
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  pages.data()[5000] = std::byte{0x5a};
  EXPECT_EQ(bytes_in_file(*file, pages.range())[5000], std::byte{0x5a});
  const std::byte peers{0xa5};
  ASSERT_EQ(pwrite(file->fd(), &peers, 1, static_cast<off_t>(pages.address() + 77)), 1);
  EXPECT_EQ(pages.data()[77], peers);
}

TEST(MemoryFile, GivenMemoryIsInTheFileUntilItIsTakenBack) {
  const auto file = make_file();
  const auto given = file->give(3 * kPage - 7);
  ASSERT_TRUE(given) << given.error().text;
  EXPECT_EQ(given->length(), 3 * kPage);
  auto* const bytes = reinterpret_cast<std::byte*>(given->begin);
  EXPECT_EQ(bytes[0], std::byte{0});
  bytes[kPage + 5] = std::byte{0x5a};
  EXPECT_EQ(bytes_in_file(*file, *given)[kPage + 5], std::byte{0x5a});
  EXPECT_TRUE(file->has_given(given->begin + 5, 3 * kPage - 5));
  EXPECT_FALSE(file->has_given(given->begin + 5, 3 * kPage));
  EXPECT_FALSE(file->has_given(given->end, 1));
  EXPECT_FALSE(file->take_back(given->begin + kPage));
  EXPECT_TRUE(file->take_back(given->begin));
  EXPECT_FALSE(file->has_given(given->begin, 1));
  EXPECT_EQ(blocks_of(*file), 0u) << "the file keeps no memory";
}

TEST(MemoryFile, AForkedChildDoesNotHaveGivenMemory) {
  const auto file = make_file();
  const Pages adopted(1);
  ASSERT_EQ(file->adopt(adopted.range()), adopted.length());
  const auto given = file->give(kPage);
  ASSERT_TRUE(given);
  file->before_fork();
  const pid_t child = fork();
  if (child == 0) {
    file->in_child();
    unsigned char is_there = 0;
    const int found = mincore(reinterpret_cast<void*>(given->begin), kPage, &is_there);
    _exit(found == -1 && errno == ENOMEM ? 0 : 1);
  }
  file->in_parent();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(file->take_back(given->begin));
}

TEST(MemoryFile, ReleasedMemoryIsPrivateAgainWithItsBytes) {
  const auto file = make_file();
  Pages pages(1030);  // More than one chunk.
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  pages.fill(2);
  const auto before = pages.copy();
  file->release(pages.range());
  EXPECT_EQ(pages.copy(), before);
  EXPECT_TRUE(is_anonymous(pages.address()));
  ASSERT_EQ(madvise(pages.data(), pages.length(), MADV_DONTNEED), 0);
  EXPECT_EQ(pages.data()[100], std::byte{0}) << "allocators rely on fresh zero pages";
  EXPECT_EQ(blocks_of(*file), 0u) << "the file keeps no memory";
}

TEST(MemoryFile, ACycleLeavesNoMapping) {
  const auto file = make_file();
  const Pages pages(2000);
  file->release(pages.range());  // Not adopted: does nothing.
  const std::size_t before = count_mappings();
  constexpr std::size_t kCycles = 100;
  for (std::size_t i = 0; i < kCycles; ++i) {
    const std::uint64_t begin = pages.address() + i * 7 % 1000 * kPage;
    const PageRange part{begin, begin + (1 + i * 13 % 900) * kPage};
    ASSERT_EQ(file->adopt(part), part.length());
    file->release(part);
  }
  EXPECT_LT(count_mappings(), before + kCycles / 2) << "an allocator may have mapped a few";
  EXPECT_EQ(mappings_of(pages.range())->size(), 1u);
}

TEST(MemoryFile, ALargePieceIsAdoptedStepByStepIntoFewMappings) {
  const auto file = make_file();
  const Pages pages(2048);
  for (std::size_t i = 0; i < 2048; i += 256) {
    const PageRange part{pages.address() + i * kPage, pages.address() + (i + 256) * kPage};
    ASSERT_EQ(file->adopt(part, (2048 - 256 - i) * kPage), part.length());
  }
  EXPECT_LE(mappings_of(pages.range())->size(), 3u);
  file->release(pages.range());
  EXPECT_EQ(mappings_of(pages.range())->size(), 1u);
}

TEST(MemoryFile, OverlappingUsersShareThePagesUntilTheLastHasGone) {
  const auto file = make_file();
  const Pages pages(10);
  const auto before = pages.copy();
  const PageRange first{pages.address(), pages.address() + 6 * kPage};
  const PageRange second{pages.address() + 4 * kPage, pages.address() + 10 * kPage};
  ASSERT_EQ(file->adopt(first), first.length());
  ASSERT_EQ(file->adopt(second), second.length());
  file->release(first);
  EXPECT_TRUE(is_anonymous(pages.address() + 3 * kPage));
  EXPECT_FALSE(is_anonymous(pages.address() + 4 * kPage));
  file->release(second);
  EXPECT_TRUE(is_anonymous(pages.address() + 4 * kPage));
  EXPECT_EQ(pages.copy(), before);
  EXPECT_EQ(mappings_of(pages.range())->size(), 1u);
}

TEST(MemoryFile, AdoptionEndsWhereMemoryMustStay) {
  const auto file = make_file();
  const Pages pages(9);
  ASSERT_EQ(mprotect(pages.data() + 3 * kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(file->adopt(pages.range()), 3 * kPage);
  file->release({pages.address(), pages.address() + 3 * kPage});
  ASSERT_EQ(munmap(pages.data() + 3 * kPage, kPage), 0);
  EXPECT_EQ(file->adopt(pages.range()), 3 * kPage);
}

TEST(MemoryFile, NothingIsAdoptedWhileWritersDoNotEnd) {
  const auto file = make_file();
  const Pages pages(4);
  unsigned begun = 0;
  unsigned ended = 0;
  file->set_writers({.begin = [&] { return ++begun > 1; }, .end = [&] { ++ended; }});
  EXPECT_EQ(file->adopt(pages.range()), 0u);
  EXPECT_EQ(file->adopt(pages.range()), pages.length());
  EXPECT_EQ(begun, ended);
}

TEST(MemoryFile, WhatTheProgramHasUnmappedIsForgotten) {
  const auto file = make_file();
  auto* const place = static_cast<std::byte*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const PageRange pages{address_of(place), address_of(place) + 4 * kPage};
  place[0] = std::byte{5};
  ASSERT_EQ(file->adopt(pages), pages.length());
  ASSERT_EQ(munmap(place, 4 * kPage), 0);
  // The addresses are reused for other memory.
  auto* const other = static_cast<std::byte*>(mmap(place, 4 * kPage, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  other[0] = std::byte{9};
  EXPECT_EQ(file->adopt(pages), 0u) << "the old bytes are not the new memory";
  file->release(pages);
  EXPECT_EQ(other[0], std::byte{9});
  EXPECT_EQ(blocks_of(*file), 0u);
  EXPECT_EQ(file->adopt(pages), pages.length());
  file->release(pages);
  EXPECT_EQ(other[0], std::byte{9});
  munmap(other, 4 * kPage);
}

TEST(MemoryFile, WhatTheProgramHasMovedKeepsItsBytes) {
  const auto file = make_file();
  auto* place = static_cast<std::byte*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(place, 7, 4 * kPage);
  const PageRange pages{address_of(place), address_of(place) + 4 * kPage};
  ASSERT_EQ(file->adopt(pages), pages.length());
  const Pages reserved(8);
  place = static_cast<std::byte*>(
      mremap(place, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, reserved.data()));
  ASSERT_NE(place, MAP_FAILED);
  file->release(pages);
  EXPECT_TRUE(is_anonymous(address_of(place)));
  EXPECT_EQ(std::vector(place, place + 4 * kPage), std::vector(4 * kPage, std::byte{7}));
}

TEST(MemoryFile, WhatTheProgramHasProtectedStaysSo) {
  const auto file = make_file();
  const Pages pages(4);
  const auto before = pages.copy();
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  ASSERT_EQ(mprotect(pages.data(), kPage, PROT_NONE), 0);
  ASSERT_EQ(mprotect(pages.data() + kPage, kPage, PROT_READ), 0);
  file->release(pages.range());
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
  const PageRange pages{(address_of(block) + kPage - 1) / kPage * kPage,
                        (address_of(block) + (1 << 20)) / kPage * kPage};
  ASSERT_EQ(file->adopt(pages), pages.length());
  auto* const grown = static_cast<unsigned char*>(std::realloc(block, 8 << 20));
  ASSERT_NE(grown, nullptr);
  block = grown;
  for (int i = 0; i < 1 << 20; ++i) ASSERT_EQ(block[i], static_cast<unsigned char>(i * 7));
  file->release(pages);
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
    EXPECT_EQ(file->adopt(pages.range()), pages.length());
    while (writers.rounds() < seen + 4) std::this_thread::yield();
    file->release(pages.range());
  }
  EXPECT_EQ(writers.finish(), 0u);
}

TEST(MemoryFile, SystemCallsMeanwhileSucceed) {
  const auto file = make_file();
  const Pages pages(16);
  const UniqueFd zeroes(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::atomic<bool> stop{false};
  std::atomic<unsigned> calls{0};
  std::atomic<unsigned> refused{0};
  std::thread thread([&] {
    for (; !stop; ++calls) {
      std::byte* const at = pages.data() + calls % 16 * kPage;
      if (read(zeroes.get(), at, kPage) != static_cast<ssize_t>(kPage)) ++refused;
    }
  });
  for (int i = 0; i < 100; ++i) {
    const unsigned seen = calls;
    file->release({pages.address(), pages.address() + file->adopt(pages.range())});
    while (calls < seen + 4) std::this_thread::yield();
  }
  stop = true;
  thread.join();
  EXPECT_EQ(refused, 0u);
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
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  EXPECT_EQ(in_forked_child(*file,
                            [&] {
                              const bool same = pages.copy() == before;
                              std::memset(pages.data(), 0, pages.length());
                              return same;
                            }),
            0);
  EXPECT_EQ(pages.copy(), before) << "the child wrote to its parent's memory";
  file->release(pages.range());
  EXPECT_EQ(in_forked_child(*file, [&] { return pages.copy() == before; }), 0);
}

/// As by _Fork(3): nothing can make a copy there, but the child lives and reads.
TEST(MemoryFile, AChildThatIsForkedWithoutHandlersReadsItsMemory) {
  const auto file = make_file();
  const Pages pages(2);
  const auto before = pages.copy();
  ASSERT_EQ(file->adopt(pages.range()), pages.length());
  const pid_t child = fork();  // This test registers no handlers.
  if (child == 0) _exit(pages.copy() == before ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  file->release(pages.range());
}

}  // namespace
}  // namespace verbatim::region

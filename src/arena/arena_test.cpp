#include "arena/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbatim::arena {
namespace {

std::uint64_t resident_bytes(const Arena& arena) {
  struct stat status{};
  fstat(arena.fd(), &status);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

class ArenaTest : public testing::Test {
 protected:
  std::span<std::byte> bytes(Offset<std::byte> at, std::size_t size) {
    return {arena_->at(at), size};
  }
  std::unique_ptr<Arena> arena_ = std::move(*Arena::create());
};

TEST_F(ArenaTest, HeaderNamesItselfAndItsProcess) {
  EXPECT_EQ(arena_->header().magic, ArenaHeader::kMagic);
  EXPECT_EQ(arena_->header().version, ArenaHeader::kVersion);
  EXPECT_EQ(process_id_of(arena_->header().process_token), static_cast<std::uint32_t>(getpid()));
}

TEST_F(ArenaTest, TablesAreReservedButUntouched) {
  EXPECT_LE(resident_bytes(*arena_), 64U << 10);
  EXPECT_EQ(arena_->queue_pair(0).qpn, 0U);
  arena_->queue_pair(kProgramQueuePairsMax - 1).qpn = 7;
  const auto* const entries = arena_->at(arena_->header().regions);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(entries) % alignof(region::RegionEntry), 0U);
  EXPECT_EQ(entries[0].key, 0U);
  EXPECT_EQ(entries[kRegionsMax - 1].key, 0U);
  EXPECT_DEATH(arena_->queue_pair(kProgramQueuePairsMax), "bug");
}

TEST_F(ArenaTest, RegionTableLivesInItWithASecretOfItsOwn) {
  ArenaHeader& header = arena_->header();
  EXPECT_NE(header.region_header.secret, (*Arena::create())->header().region_header.secret);
  region::RegionTable regions(header.region_header, {arena_->at(header.regions), kRegionsMax});
  const auto key = regions.add({.address = 4096, .length = 8, .iova = 4096, .pd = PdNumber{1}});
  ASSERT_TRUE(key);
  EXPECT_TRUE(regions.check(*key, 4096, 8, region::kLocalRead, PdNumber{1}));
  EXPECT_EQ(arena_->queue_pair(kProgramQueuePairsMax - 1).qpn, 0U);
}

TEST_F(ArenaTest, BlocksAreAlignedZeroedAndApart) {
  std::byte* end = nullptr;
  for (const std::size_t size : {1, 64, 65, 4000, 3, 4032}) {
    const auto block = arena_->allocate(size);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->value % 64, 0U);
    EXPECT_TRUE(is_zero(bytes(*block, size)));
    EXPECT_GE(arena_->at(*block), end);
    std::memset(arena_->at(*block), 0xff, size);
    end = arena_->at(*block) + size;
  }
  EXPECT_EQ(arena_->allocate(4096)->value % 4096, 0U);
}

TEST_F(ArenaTest, FreedBlocksComeBackZeroed) {
  for (const std::size_t size : {100, 5000, 300'000}) {
    const auto block = *arena_->allocate(size);
    std::memset(arena_->at(block), 0xff, size);
    arena_->free(block, size);
    const auto again = arena_->allocate(size);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->value, block.value);
    EXPECT_TRUE(is_zero(bytes(*again, size)));
  }
}

TEST_F(ArenaTest, FreedPagesGoBackToTheSystem) {
  constexpr std::size_t kSize = 8 << 20;
  const auto before = resident_bytes(*arena_);
  const auto block = *arena_->allocate(kSize);
  EXPECT_EQ(resident_bytes(*arena_), before);
  std::memset(arena_->at(block), 1, kSize);
  EXPECT_GE(resident_bytes(*arena_), before + kSize);
  arena_->free(block, kSize);
  EXPECT_EQ(resident_bytes(*arena_), before);
}

TEST_F(ArenaTest, ABlockOfWhichLittleWasWrittenKeepsItsPages) {
  constexpr std::size_t kSize = 64 << 10;
  const auto block = *arena_->allocate(kSize);
  std::memset(arena_->at(block), 0xff, 100);
  const auto before = resident_bytes(*arena_);
  arena_->free(block, kSize, 100);
  EXPECT_EQ(resident_bytes(*arena_), before);
  const auto again = *arena_->allocate(kSize);
  EXPECT_EQ(again.value, block.value);
  EXPECT_TRUE(is_zero(bytes(again, kSize)));
}

TEST_F(ArenaTest, FreeBlocksKeepFewPages) {
  constexpr std::size_t kSize = 32 << 10, kWritten = 16 << 10;
  constexpr int kBlocks = 1'000;
  const auto before = resident_bytes(*arena_);
  std::vector<Offset<std::byte>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(*arena_->allocate(kSize));
    std::memset(arena_->at(blocks.back()), 0xff, kWritten);
  }
  EXPECT_GE(resident_bytes(*arena_), before + kBlocks * kWritten);
  for (const auto& block : blocks) arena_->free(block, kSize, kWritten);
  EXPECT_LE(resident_bytes(*arena_), before + (4 << 20));
  // Nor do those of which the next user writes nothing.
  for (int round = 0; round < 2; ++round) {
    for (auto& block : blocks) {
      block = *arena_->allocate(kSize);
      if (round == 0) std::memset(arena_->at(block), 0xff, kWritten);
    }
    for (const auto& block : blocks) arena_->free(block, kSize, round == 0 ? kWritten : 0);
    EXPECT_LE(resident_bytes(*arena_), before + (4 << 20));
  }
  for (int i = 0; i < kBlocks; ++i) {
    const auto again = *arena_->allocate(kSize);
    EXPECT_TRUE(is_zero(bytes(again, kSize)));
    EXPECT_LE(again.value, blocks.back().value);  // None is lost.
  }
}

TEST_F(ArenaTest, FullArenaIsEnomemUntilSomethingIsFreed) {
  EXPECT_EQ(arena_->allocate(kArenaBytes + 1).error().code, ENOMEM);
  constexpr std::size_t kSize = 8ULL << 30;
  std::vector<Offset<std::byte>> blocks;
  for (auto block = arena_->allocate(kSize); block; block = arena_->allocate(kSize)) {
    bytes(*block, kSize).back() = std::byte{1};
    blocks.push_back(*block);
  }
  EXPECT_EQ(blocks.size(), 7U);  // The eighth would overlap the tables.
  EXPECT_EQ(arena_->allocate(kSize).error().code, ENOMEM);
  arena_->free(blocks.back(), kSize);
  const auto again = arena_->allocate(kSize);
  ASSERT_TRUE(again);
  EXPECT_EQ(bytes(*again, kSize).back(), std::byte{0});
}

TEST_F(ArenaTest, PeersMapTheSameBytesAndCannotCutThemOff) {
  const auto block = *arena_->allocate(4096);
  void* const peer = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, arena_->fd(),
                          static_cast<off_t>(block.value));
  ASSERT_NE(peer, MAP_FAILED);
  std::memset(peer, 0x5a, 1);
  EXPECT_EQ(bytes(block, 1)[0], std::byte{0x5a});
  munmap(peer, 4096);
  EXPECT_EQ(ftruncate(arena_->fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
}

/// Checks the arena in a forked child; returns 0 if all is as expected.
int look_from_child(std::unique_ptr<Arena>& arena, Offset<std::byte> block) {
  unsigned char resident = 0;
  if (mincore(arena->at(block), 4096, &resident) == 0 || errno != ENOMEM) return 1;
  if (arena->allocate(64).error().code != EPERM) return 2;
  arena->free(block, 4096);
  arena->abandon_in_child();
  if (*arena->at(block) != std::byte{0}) return 3;
  *arena->at(block) = std::byte{9};
  arena.reset();
  return 0;
}

TEST_F(ArenaTest, ForkedChildCannotTouchIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer keeps shadow memory for the arena, which a child does not have";
#endif
  const auto block = *arena_->allocate(4096);
  bytes(block, 1)[0] = std::byte{7};
  const pid_t child = fork();
  if (child == 0) _exit(look_from_child(arena_, block));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(bytes(block, 1)[0], std::byte{7});
}

TEST_F(ArenaTest, ThreadsNeverShareABlock) {
  const auto work = [this](std::uint8_t mark) {
    for (std::size_t round = 0; round < 300; ++round) {
      const std::size_t size = 16 + round * 37 % 9000;
      const auto block = *arena_->allocate(size);
      ASSERT_TRUE(is_zero(bytes(block, size)));
      std::memset(arena_->at(block), mark, size);
      std::this_thread::yield();
      ASSERT_TRUE(std::ranges::all_of(bytes(block, size),
                                      [mark](std::byte byte) { return byte == std::byte{mark}; }));
      arena_->free(block, size);
    }
  };
  std::thread other(work, std::uint8_t{1});
  work(2);
  other.join();
}

}  // namespace
}  // namespace verbatim::arena

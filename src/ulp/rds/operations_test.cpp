// READs, WRITEs and atomic operations before messages.
#include <array>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "ulp/rds/world_for_test.h"

namespace verbatim::ulp::rds {
namespace {

using Kind = Operation::Kind;

/// An operation of a program of node 0 in the memory of node 1.
Operation operation(World& world, Kind kind, std::uint64_t address, std::size_t bytes) {
  return {.kind = kind,
          .remote = {address, static_cast<std::uint32_t>(bytes), World::kGranted},
          .local = world.take(0, bytes),
          .is_fenced = kind == Kind::read,
          .tells_success = true,
          .token = 100 + address};
}

void fill(const Operation& one, std::byte value) {
  for (const Slice& slice : one.local)
    std::memset(slice.data, static_cast<int>(value), slice.bytes);
}

struct Pair {
  World world;
  World::Program& here = world.open(0, 4000);
  World::Program& there = world.open(1, 4001);
  explicit Pair(const World::Options& options = {}) : world(options) {}
  /// All fragments have come back.
  ~Pair() { EXPECT_EQ(world.pool(0).free(), 4096u); }
};

TEST(RdsOperations, AWriteIsThereBeforeItsMessage) {
  Pair pair;
  Operation write = operation(pair.world, Kind::write, 64, 10'000);
  fill(write, std::byte{7});
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(1, 8), {write}));
  pair.world.run();
  ASSERT_EQ(pair.there.read.size(), 1u);
  EXPECT_EQ(pair.world.memory(1)[64 + 9'999], std::byte{7});
  EXPECT_EQ(pair.world.memory(1)[64 + 10'000], std::byte{});
  EXPECT_EQ(pair.world.used(1), std::vector{World::kGranted});  // By the message's header.
  ASSERT_EQ(pair.here.notices.size(), 1u);
  EXPECT_EQ(pair.here.notices[0].token, 164u);
  EXPECT_EQ(pair.here.notices[0].status, OperationStatus::success);
}

TEST(RdsOperations, AReadBringsItsBytes) {
  Pair pair;
  for (std::size_t i = 0; i < 20'000; ++i)
    pair.world.memory(1)[i] = static_cast<std::byte>(i % 251);
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, {},
                              {operation(pair.world, Kind::read, 0, 20'000)}));
  pair.world.run();
  ASSERT_EQ(pair.here.read_memory.size(), 1u);
  EXPECT_TRUE(
      std::ranges::equal(pair.here.read_memory[0], std::span(pair.world.memory(1)).first(20'000)));
  EXPECT_EQ(pair.there.read.size(), 1u);
}

TEST(RdsOperations, AtomicsAreDoneOnce) {
  Pair pair;
  for (int i = 0; i < 3; ++i) {
    Operation add = operation(pair.world, Kind::fetch_and_add, 8, 8);
    add.value = 5;
    ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, {}, {add}));
  }
  Operation swap = operation(pair.world, Kind::compare_and_swap, 8, 8);
  swap.compare = 15;
  swap.value = 99;
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, {}, {swap}));
  pair.world.run();
  std::array<std::uint64_t, 4> old{};
  ASSERT_EQ(pair.here.read_memory.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(&old[i], pair.here.read_memory[i].data(), 8);
  EXPECT_EQ(old, (std::array<std::uint64_t, 4>{0, 5, 10, 15}));
  std::uint64_t last = 0;
  std::memcpy(&last, &pair.world.memory(1)[8], 8);
  EXPECT_EQ(last, 99u);
}

/// The queue pair is cut, the message is not sent, and all others come.
TEST(RdsOperations, AWrongKeyIsToldAndOthersMessagesCome) {
  for (const bool tells : {true, false}) {
    Pair pair;
    Operation write = operation(pair.world, Kind::write, 0, 100);
    write.remote.remote_key = MemoryKey{1};
    write.tells_success = false;
    write.tells_errors = tells;  // RDS_RECVERR
    ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(0, 8)));
    ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(1, 8), {write}));
    ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(2, 8)));
    pair.world.run(100'000);
    ASSERT_EQ(pair.there.read.size(), 2u);
    EXPECT_EQ(pair.there.read[1].bytes, content_of(2, 8));
    ASSERT_EQ(pair.here.notices.size(), tells ? 1u : 0u);
    if (tells) {
      EXPECT_EQ(pair.here.notices[0].status, OperationStatus::remote_error);
    }
  }
}

TEST(RdsOperations, SilentOnesHaveNoMessage) {
  Pair pair;
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(0, 8)));
  pair.world.run();
  Parcel parcel{.operations = {operation(pair.world, Kind::write, 0, 100)}, .is_silent = true};
  parcel.fragments = pair.world.take(0, 0);
  ASSERT_TRUE(pair.world.broker(0).send(pair.here.socket, pair.there.own, std::move(parcel),
                                        pair.world.now()));
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(2, 8)));
  pair.world.run();
  EXPECT_EQ(pair.there.read.size(), 2u);
  EXPECT_EQ(pair.here.notices.size(), 1u);
}

TEST(RdsOperations, CancelledOnesAreTold) {
  Pair pair;
  pair.world.set_apart(true);
  ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, {},
                              {operation(pair.world, Kind::read, 0, 5'000)}));
  pair.world.broker(0).cancel(pair.here.socket, {});
  ASSERT_EQ(pair.here.notices.size(), 1u);
  EXPECT_EQ(pair.here.notices[0].status, OperationStatus::cancelled);
  pair.world.set_apart(false);
  pair.world.run(100'000);
}

/// Each fetch-and-add is told once; it was done if it succeeded, and may have been if the queue
/// pair was cut. Its message comes at most once, and only if it was done; others' always come.
TEST(RdsOperations, ACutRepeatsNothing) {
  std::size_t dropped = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Pair pair({.seed = seed, .cut = 0.02});
    std::uint64_t plain = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      Operation add = operation(pair.world, Kind::fetch_and_add, 0, 8);
      add.value = 1;
      add.token = i;
      const bool is_plain = pair.world.below(2) == 0;
      if (is_plain) {
        pair.world.pool(0).give_back(add.local);
        ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(1000 + plain++, 16)));
      } else {
        ASSERT_TRUE(pair.world.send(pair.here, pair.there.own, content_of(i, 16), {add}));
      }
      pair.world.step();
    }
    pair.world.set_cut(0);
    pair.world.run(300'000);
    std::uint64_t count = 0;
    std::memcpy(&count, pair.world.memory(1).data(), sizeof count);
    const auto done = static_cast<std::uint64_t>(
        std::ranges::count(pair.here.notices, OperationStatus::success, &Notice::status));
    ASSERT_EQ(pair.here.notices.size(), 40 - plain) << "seed " << seed;
    ASSERT_GE(count, done) << "seed " << seed;
    ASSERT_LE(count, 40 - plain) << "seed " << seed;
    dropped += pair.here.notices.size() - done;
    std::uint64_t next = 0, with = 0;
    for (const World::Received& one : pair.there.read) {
      if (next < plain && one.bytes == content_of(1000 + next, 16)) {
        ++next;
      } else {
        ++with;
      }
    }
    ASSERT_EQ(next, plain) << "seed " << seed;
    ASSERT_GE(with, done) << "seed " << seed;
    ASSERT_LE(with, count) << "seed " << seed;
  }
  EXPECT_GT(dropped, 0u);
}

}  // namespace
}  // namespace verbatim::ulp::rds

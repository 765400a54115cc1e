#include "offload/card/attached_driver.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "offload/card/rule_check.h"
#include "sim/random.h"

namespace verbatim::offload {
namespace {

constexpr std::uint64_t kAddress = 0x7000'0000'0000;
constexpr std::uint64_t kMemoryBytes = 128 << 10;

/// The other side: a driver that may write what it likes into the shared memory.
class AttachedDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = AttachedDriver::create(2, 16);
    ASSERT_TRUE(made) << made.error().text;
    card_ = std::move(*made);
    void* const at = mmap(nullptr, card_->region_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED,
                          card_->region_file(), 0);
    ASSERT_NE(at, MAP_FAILED);
    region_ = static_cast<vnic_region*>(at);
    memory_.reset(memfd_create("packets", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(memory_.get(), kMemoryBytes), 0);
    ASSERT_TRUE(card_->memory().add({kAddress, kMemoryBytes, 0}, memory_.get()));
    for (std::uint16_t p = 0; p < 2; ++p) {
      region_->ports[p].receive_queues = region_->ports[p].send_queues = 1;
      card_->start(p);
    }
  }
  void TearDown() override { munmap(region_, card_->region_bytes()); }

  static void post(vnic_ring& ring, std::uint64_t address, std::uint32_t length) {
    ring.slots[ring.posted % VNIC_SLOTS] = {address, length, 0};
    release(ring.posted, ring.posted + 1);
  }
  void write_memory(std::uint64_t at, const std::string& text) {
    ASSERT_EQ(pwrite(memory_.get(), text.data(), text.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(text.size()));
  }
  std::string sent(std::uint16_t port) {
    std::string all;
    card_->take_frames(port, [&](ByteSpan frame) {
      all.append(reinterpret_cast<const char*>(frame.data()), frame.size());
    });
    return all;
  }
  bool deliver(std::uint16_t port, const std::string& text) {
    return card_->deliver(port, 0, 7, [&](MutableByteSpan room) -> std::size_t {
      if (room.size() < text.size()) return 0;
      std::memcpy(room.data(), text.data(), text.size());
      return text.size();
    });
  }

  std::unique_ptr<AttachedDriver> card_;
  vnic_region* region_ = nullptr;
  UniqueFd memory_;
};

TEST_F(AttachedDriverTest, BuffersThatTheDriverTookBackAreNotUsed) {
  vnic_ring& ring = region_->ports[0].receive[0];
  for (int i = 0; i < 3; ++i) post(ring, kAddress + 4096, 2048);
  EXPECT_TRUE(deliver(0, "one"));
  card_->stop(0);
  release(ring.posted, acquire(ring.done));
  card_->start(0);
  EXPECT_FALSE(deliver(0, "two"));
  post(ring, kAddress + 4096, 2048);
  EXPECT_TRUE(deliver(0, "three"));
}

TEST_F(AttachedDriverTest, AllCommandsAreTakenBeforeTheNextFrame) {
  release(region_->command_posted, VNIC_COMMANDS);
  EXPECT_EQ(card_->take_commands([](const vnic_command&) { return 0; }), VNIC_COMMANDS);
}

TEST_F(AttachedDriverTest, FramesGoBothWays) {
  write_memory(100, "hello");
  post(region_->ports[1].send[0], kAddress + 100, 5);
  EXPECT_EQ(sent(1), "hello");
  EXPECT_EQ(region_->ports[1].send[0].done, 1u);
  EXPECT_FALSE(deliver(0, "answer")) << "no buffer is posted";
  post(region_->ports[0].receive[0], kAddress + 4096, 2048);
  EXPECT_TRUE(deliver(0, "answer"));
  EXPECT_EQ(region_->ports[0].receive[0].slots[0].length, 6u);
  EXPECT_EQ(region_->ports[0].receive[0].slots[0].mark, 7u);
  EXPECT_EQ(card_->faults(), 0u);
}

TEST_F(AttachedDriverTest, AWrongCursorStopsItsRingAlone) {
  release(region_->ports[0].send[0].posted, VNIC_SLOTS + 1u);
  EXPECT_EQ(sent(0), "");
  EXPECT_EQ(card_->faults(), 1u);
  EXPECT_EQ(sent(0), "");
  EXPECT_EQ(card_->faults(), 1u) << "counted once";
  EXPECT_FALSE(card_->has_work()) << "the card may sleep";
  write_memory(0, "other");
  post(region_->ports[1].send[0], kAddress, 5);
  EXPECT_EQ(sent(1), "other");
}

TEST_F(AttachedDriverTest, AddressesAreThoseThatWereRegistered) {
  vnic_ring& ring = region_->ports[0].send[0];
  post(ring, kAddress - 1, 5);
  post(ring, kAddress + kMemoryBytes - 4, 5);
  post(ring, kAddress, 0xffffffff);
  post(ring, 0, 5);
  post(ring, ~std::uint64_t{0}, 5);
  EXPECT_EQ(sent(0), "");
  EXPECT_EQ(ring.done, 5u);
  EXPECT_EQ(card_->faults(), 5u);
  post(region_->ports[0].receive[0], 0x1234, 2048);
  EXPECT_FALSE(deliver(0, "answer"));
  EXPECT_EQ(card_->faults(), 6u);
  EXPECT_EQ(region_->ports[0].receive[0].slots[0].length, 0u) << "the buffer goes back empty";
}

TEST_F(AttachedDriverTest, AFrameHasALengthThatAFrameMayHave) {
  post(region_->ports[0].send[0], kAddress, 0);
  post(region_->ports[0].send[0], kAddress, RingEnd::kFrameMax + 1);
  EXPECT_EQ(sent(0), "");
  EXPECT_EQ(card_->faults(), 2u);
}

TEST_F(AttachedDriverTest, ABufferThatIsTooSmallGoesBackEmpty) {
  post(region_->ports[0].receive[0], kAddress, 3);
  EXPECT_FALSE(deliver(0, "answer"));
  EXPECT_EQ(region_->ports[0].receive[0].done, 1u);
  EXPECT_EQ(region_->ports[0].receive[0].slots[0].length, 0u);
}

TEST_F(AttachedDriverTest, CommandsBeyondTheirRingAreNotTaken) {
  const auto ok = [](const vnic_command&) { return 0; };
  release(region_->command_posted, VNIC_COMMANDS + 1u);
  EXPECT_EQ(card_->take_commands(ok), 0u);
  EXPECT_EQ(card_->faults(), 1u);
  EXPECT_FALSE(card_->has_work());
}

TEST_F(AttachedDriverTest, ARefusedCommandTellsWhy) {
  release(region_->command_posted, 2u);
  int round = 0;
  EXPECT_EQ(card_->take_commands([&](const vnic_command&) { return round++ == 0 ? -ENOSPC : 0; }),
            2u);
  EXPECT_EQ(region_->commands[0].result, -ENOSPC);
  EXPECT_EQ(region_->commands[1].result, 0);
  EXPECT_EQ(region_->commands_refused, 1u);
  EXPECT_EQ(region_->command_done, 2u);
}

TEST_F(AttachedDriverTest, QueuesBeyondTheLimitAreNone) {
  region_->ports[0].receive_queues = region_->ports[0].send_queues = 5000;
  card_->start(0);
  for (std::uint32_t hash = 0; hash < 64; ++hash) {
    EXPECT_FALSE(card_->deliver(0, hash, 0, [](MutableByteSpan) { return std::size_t{1}; }));
  }
  EXPECT_EQ(sent(0), "");
}

TEST_F(AttachedDriverTest, AStoppedPortIsNotTouched) {
  post(region_->ports[0].send[0], kAddress, 5);
  post(region_->ports[0].receive[0], kAddress, 2048);
  card_->stop(0);
  EXPECT_EQ(sent(0), "");
  EXPECT_FALSE(deliver(0, "answer"));
  EXPECT_FALSE(card_->has_work());
}

TEST_F(AttachedDriverTest, TheRegionCannotBeCut) {
  EXPECT_NE(ftruncate(card_->region_file(), 4096), 0);
}

/// Without the guard this is a SIGBUS.
TEST_F(AttachedDriverTest, MemoryThatItsOwnerCutsOffIsZerosAndKnown) {
  EXPECT_FALSE(card_->memory().was_cut());
  ASSERT_EQ(ftruncate(memory_.get(), 0), 0);
  post(region_->ports[0].send[0], kAddress + 5000, 5);
  EXPECT_EQ(sent(0), std::string(5, '\0'));
  EXPECT_TRUE(card_->memory().was_cut());
}

/// As above, with DPDK's usual memory: a small page cannot take the place of a part of a huge one.
TEST_F(AttachedDriverTest, HugePagesThatAreCutOffAreZeros) {
  const UniqueFd huge(memfd_create("packets", MFD_CLOEXEC | MFD_HUGETLB));
  struct stat info{};
  const std::uint64_t address = kAddress + kMemoryBytes;
  if (!huge || fstat(huge.get(), &info) != 0 || ftruncate(huge.get(), info.st_blksize) != 0 ||
      !card_->memory().add({address, static_cast<std::uint64_t>(info.st_blksize), 0}, huge.get())) {
    GTEST_SKIP() << "no huge pages (sysctl vm.nr_hugepages)";
  }
  ASSERT_EQ(ftruncate(huge.get(), 0), 0);
  post(region_->ports[0].send[0], address + 5000, 5);
  EXPECT_EQ(sent(0), std::string(5, '\0'));
  EXPECT_TRUE(card_->memory().was_cut());
}

TEST_F(AttachedDriverTest, MemoryIsRegisteredOnce) {
  PacketMemory& memory = card_->memory();
  const auto refused = [&](const vnic_memory& piece) {
    const auto added = memory.add(piece, memory_.get());
    return added ? 0 : added.error().code;
  };
  EXPECT_EQ(refused({kAddress, 4096, 0}), EINVAL);
  EXPECT_EQ(refused({kAddress - 4096, 8192, 0}), EINVAL);
  EXPECT_EQ(refused({kAddress + kMemoryBytes, 0, 0}), EINVAL);
  EXPECT_EQ(refused({~std::uint64_t{0} - 4096, 8192, 0}), EINVAL);
  EXPECT_EQ(refused({kAddress + kMemoryBytes, ~std::uint64_t{0}, 0}), EINVAL);
  EXPECT_EQ(refused({kAddress + kMemoryBytes, 4096, 0}), 0);
}

/// Under a sanitizer: whatever a driver writes into the shared memory, the card reads and writes
/// nothing but that and what was registered, and comes to an end.
TEST_F(AttachedDriverTest, NothingThatADriverWritesDoesHarm) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    sim::Random random(seed);
    const auto word = [&] {
      return static_cast<std::uint32_t>(random.chance(0.5) ? random.below(2 * VNIC_SLOTS)
                                                           : random.next());
    };
    for (int round = 0; round < 200; ++round) {
      vnic_port& port = region_->ports[random.below(2)];
      for (vnic_ring* const ring : {&port.send[random.below(2)], &port.receive[random.below(2)]}) {
        release(ring->posted, word());
        release(ring->done, word());
        for (auto& slot : ring->slots) slot = {kAddress + word() % kMemoryBytes, word(), word()};
      }
      port.receive_queues = word();
      port.send_queues = word();
      release(region_->command_posted, word());
      const auto target = static_cast<std::uint16_t>(random.below(2));
      if (random.chance(0.3)) card_->start(target);
      if (random.chance(0.1)) card_->stop(target);
      card_->take_commands(
          [&](const vnic_command& command) { return rule_of(command.rule, 2) ? 0 : -EINVAL; });
      sent(target);
      card_->deliver(target, word(), word(), [](MutableByteSpan room) {
        std::ranges::fill(room, std::byte{1});
        return room.size();
      });
      (void)card_->has_work();
    }
  }
  EXPECT_GT(card_->faults(), 0u);
}

}  // namespace
}  // namespace verbatim::offload

#include "agent/sockets/slots.h"

#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent_test_util.h"

namespace verbatim::agent {
namespace {

Node test_node() {
  const auto address = SocketAddress::parse("127.79.0.1", kRocePort).value();
  return {
      .name = "a", .interface = "lo", .addresses = {address}, .gids = {{gid_of(address), address}}};
}

class SlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    // The largest node has more sockets than a program may usually have descriptors.
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  void TearDown() override { unlink(path_.c_str()); }
  SlotLocks locks() const { return SlotLocks(path_); }
  Slots create() const { return Slots::create(test_node(), locks()).value(); }
  static DescriptorStore copy(const Slots& slots) {
    const auto duplicate = [](int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); };
    return DescriptorStore::restore(duplicate(slots.descriptor_store().in()),
                                    duplicate(slots.descriptor_store().out()))
        .value();
  }

 private:
  std::string path_ = testing::TempDir() + "verbatim-slots-" + std::to_string(getpid());
};

TEST_F(SlotsTest, ServesTheWholeRangeOfQueuePairNumbers) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 4096) GTEST_SKIP() << "at most " << limit.rlim_cur << " descriptors";
  Slots slots = create();
  std::vector<SlotLease> leases;
  std::set<std::uint32_t> numbers;
  for (std::uint32_t i = 1; i < kSlotsMax; ++i) {
    auto lease = slots.take();
    ASSERT_TRUE(lease) << i << ": " << lease.error().text;
    numbers.insert(lease->slot);
    leases.push_back(std::move(*lease));
  }
  EXPECT_EQ(numbers.size(), kSlotsMax - 1);
  EXPECT_FALSE(numbers.contains(0));
  const auto beyond = slots.take();
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ENOSPC);
  const auto restored = Slots::restore(copy(slots), locks());
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(restored->sockets(kSlotsMax - 1).size(), 1u);
}

TEST_F(SlotsTest, DescriptorStoreIsReadAnyNumberOfTimes) {
  Slots slots = create();
  std::vector<SlotLease> leases;
  for (int i = 0; i < 20; ++i) leases.push_back(slots.take().value());
  for (int i = 0; i < 3; ++i) {
    auto restored = Slots::restore(copy(slots), locks());
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(restored->node().name, "a");
    EXPECT_TRUE(restored->retake(20));
    EXPECT_EQ(restored->retake(20).error().code, ESTALE);  // Twice.
    EXPECT_EQ(restored->retake(21).error().code, ESTALE);  // It has no program.
    EXPECT_EQ(restored->retake(0).error().code, ESTALE);
    EXPECT_EQ(restored->retake(5000).error().code, ESTALE);
    EXPECT_EQ(restored->take()->slot, 21u);
  }
}

TEST_F(SlotsTest, AnAddressThatIsAddedHasASocketForEachSlotNowAndLater) {
  Slots slots = create();
  const auto added = SocketAddress::parse("127.79.0.2", kRocePort).value();
  ASSERT_TRUE(slots.add_address(added));
  ASSERT_EQ(slots.node().addresses.size(), 2u);
  EXPECT_EQ(slots.node().gids.back(), (GidEntry{gid_of(added), added}));
  std::vector<SlotLease> leases;
  for (int i = 0; i < 10; ++i) leases.push_back(slots.take().value());

  // The next agent has them, too, in the same order.
  const auto restored = Slots::restore(copy(slots), locks());
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(restored->node().addresses, slots.node().addresses);
  EXPECT_EQ(restored->node().gids, slots.node().gids);
  PacketSender sender(added);
  for (const std::uint32_t slot : {0u, 1u, 7u, 8u, 10u}) {
    sender.send(added, qpn_of(slot, 3));
    EXPECT_EQ(received(restored->sockets(slot)[1].get(), kTestTimeoutMs),
              std::vector{qpn_of(slot, 3).value()});
  }
}

TEST_F(SlotsTest, AddressesAreBounded) {
  Slots slots = create();
  for (std::size_t i = 1; i < kAddressesMax; ++i) {
    const auto added = slots.add_address(
        SocketAddress::ipv4({127, 79, 1, static_cast<std::uint8_t>(i)}, kRocePort));
    ASSERT_TRUE(added) << added.error().text;
  }
  const auto beyond = SocketAddress::parse("127.79.0.2", kRocePort).value();
  EXPECT_EQ(slots.add_address(beyond).error().code, ENOSPC);
  EXPECT_EQ(Slots::restore(copy(slots), locks())->node().addresses.size(), kAddressesMax);
}

TEST_F(SlotsTest, AnAddressOfSomebodyElseIsRefusedAndLeavesNothing) {
  Slots slots = create();
  const auto taken = SocketAddress::parse("127.79.0.2", kRocePort).value();
  {
    const auto others = ReceiveSockets({taken}).make_chunk();
    ASSERT_TRUE(others);
    EXPECT_EQ(slots.add_address(taken).error().code, EADDRINUSE);
  }
  EXPECT_EQ(slots.node().addresses.size(), 1u);
  EXPECT_TRUE(slots.add_address(taken));
}

TEST_F(SlotsTest, ThereAreSlotsForAnAddressThatIsGone) {
  Node node = test_node();
  node.addresses.push(SocketAddress::parse("198.51.100.1", kRocePort).value());
  const auto slots = Slots::create(node, locks());
  ASSERT_TRUE(slots) << slots.error().text;
  EXPECT_EQ(slots->sockets(7).size(), 2u);
}

TEST_F(SlotsTest, SomethingElseIsNoDescriptorStore) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(DescriptorStore::restore(UniqueFd(ends[0]), UniqueFd(ends[1])));
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(write(ends[1], "hello", 5), 5);
  EXPECT_FALSE(DescriptorStore::restore(UniqueFd(ends[0]), UniqueFd(ends[1])));
}

TEST_F(SlotsTest, LockEndsWithItsHolder) {
  EXPECT_FALSE(locks().any_is_held());
  auto lock = locks().take(5);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(locks().is_held(5));
  EXPECT_FALSE(locks().is_held(6));
  EXPECT_EQ(locks().take(5).error().code, EWOULDBLOCK);
  locks().remove_if_free();
  EXPECT_TRUE(locks().any_is_held());
  lock->reset();
  EXPECT_FALSE(locks().any_is_held());
}

TEST_F(SlotsTest, ASlotWhoseLockAChildHoldsIsPassedOver) {
  Slots slots = create();
  auto lease = slots.take().value();
  EXPECT_EQ(lease.slot, 1u);
  slots.release(1);
  std::vector<SlotLease> leases;
  for (std::uint32_t i = 0; i < ReceiveSockets::kSlotsPerChunk; ++i) {
    leases.push_back(slots.take().value());
    EXPECT_NE(leases.back().slot, 1u);
  }
}

}  // namespace
}  // namespace verbatim::agent

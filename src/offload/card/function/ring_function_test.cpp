#include "offload/card/function/ring_function.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbatim::offload {
namespace {

constexpr std::uint64_t kAddress = 0x10000;  // Of a client's memory.
constexpr std::size_t kMemoryBytes = 64 << 10;

/// A client of a function, by hand: it may write what it likes.
struct Client {
  Client(RingFunction& function, std::uint16_t wants, std::uint32_t range = 0) {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    own.reset(pair[0]);
    cards.reset(pair[1]);
    auto joined = function.join(
        cards.get(), {.function = 0, .wants = wants, .qpn_range = range, .qpn_shift = 14});
    EXPECT_TRUE(joined);
    member = *joined;
    region = static_cast<vnic_function_region*>(mmap(nullptr, sizeof(vnic_function_region),
                                                     PROT_READ | PROT_WRITE, MAP_SHARED,
                                                     member->region_file(), 0));
    const UniqueFd file(memfd_create("memory", 0));
    EXPECT_EQ(ftruncate(file.get(), kMemoryBytes), 0);
    memory = static_cast<std::byte*>(
        mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
    EXPECT_TRUE(member->add_memory({kAddress, kMemoryBytes, 0}, file.get()));
  }
  ~Client() {
    munmap(region, sizeof *region);
    munmap(memory, kMemoryBytes);
  }
  static void post(vnic_ring& ring, std::uint64_t address, std::uint32_t length) {
    ring.slots[ring.posted % VNIC_SLOTS] = {address, length, 0};
    release(ring.posted, ring.posted + 1);
  }
  void post_empty(std::uint32_t length = 2048) {
    post(region->receive, kAddress + 4096 * (1 + region->receive.posted), length);
  }
  void send(const std::vector<std::byte>& frame) {
    std::memcpy(memory, frame.data(), frame.size());
    post(region->send, kAddress, static_cast<std::uint32_t>(frame.size()));
  }
  std::size_t got() const {
    member->publish();
    return region->receive.done;
  }
  bool was_woken() const {
    std::array<std::byte, 64> message;
    return recv(own.get(), message.data(), message.size(), MSG_DONTWAIT) == sizeof(vnic_message);
  }

  UniqueFd own, cards;
  FunctionMember* member = nullptr;
  vnic_function_region* region = nullptr;
  std::byte* memory = nullptr;
};

/// RoCE v1 to a queue pair number.
std::vector<std::byte> frame_to(std::array<std::uint8_t, 6> mac, std::uint32_t qpn) {
  std::vector<std::byte> frame(14 + 40 + 12);
  std::memcpy(frame.data(), mac.data(), mac.size());
  store_be<std::uint16_t>(&frame[12], wire::kTypeRoceV1);
  store_be24(&frame[14 + 40 + 5], qpn);
  return frame;
}
constexpr std::array<std::uint8_t, 6> kElsewhere{2, 0, 0, 0, 0, 9};

class RingFunctionTest : public ::testing::Test {
 protected:
  std::size_t read() { return function_.read(room_, rest_); }
  bool write(const std::vector<std::byte>& frame) { return function_.write(frame, {}, {}); }
  RingFunction function_{"nicvf2", "a card"};
  std::array<std::byte, 8192> room_{};
  ByteSpan rest_;
};

TEST_F(RingFunctionTest, TheLinkIsUpWhileThereIsAClient) {
  EXPECT_FALSE(function_.link_is_up());
  EXPECT_FALSE(write(frame_to(function_.mac(), 1)));
  {
    const Client client(function_, VNIC_WANTS_ALL);
    EXPECT_TRUE(function_.link_is_up());
    EXPECT_EQ(client.region->link_is_up, 1u);
    function_.set_carrier(false);
    EXPECT_EQ(client.region->link_is_up, 0u);
    function_.set_carrier(true);
    function_.leave(client.cards.get());
  }
  EXPECT_FALSE(function_.link_is_up());
  const Client next(function_, VNIC_WANTS_ALL);
  EXPECT_TRUE(function_.link_is_up());
}

TEST_F(RingFunctionTest, TheSameFunctionOfTheNextCardHasTheSameMac) {
  EXPECT_EQ(RingFunction("a", "seed").mac(), RingFunction("b", "seed").mac());
  EXPECT_NE(RingFunction("a", "seed").mac(), RingFunction("a", "other").mac());
}

TEST_F(RingFunctionTest, ClientsGetWhatIsForTheirQueuePairs) {
  Client first(function_, VNIC_WANTS_ROCE_V1, 1), second(function_, VNIC_WANTS_ROCE_V1, 2),
      other_version(function_, VNIC_WANTS_ROCE_V2, 1), sniffer(function_, VNIC_WANTS_ALL);
  for (Client* each : {&first, &second, &other_version, &sniffer}) {
    each->post_empty();
    each->post_empty();
  }
  EXPECT_TRUE(write(frame_to(function_.mac(), 2 << 14 | 5)));
  EXPECT_EQ(first.got(), 0u);
  EXPECT_EQ(second.got(), 1u);
  EXPECT_TRUE(write(frame_to(function_.mac(), 0xffffff))) << "a group's";
  EXPECT_EQ(first.got(), 1u);
  EXPECT_EQ(second.got(), 2u);
  EXPECT_EQ(other_version.got(), 0u);
  EXPECT_EQ(sniffer.got(), 2u);
}

TEST_F(RingFunctionTest, AFrameLeavesOrComesBack) {
  Client client(function_, VNIC_WANTS_ROCE_V1, 1);
  client.post_empty();
  client.send(frame_to(kElsewhere, 1 << 14));
  EXPECT_EQ(read(), 66u);
  EXPECT_EQ(client.got(), 0u);
  client.send(frame_to(function_.mac(), 1 << 14));
  EXPECT_EQ(read(), 0u);
  EXPECT_EQ(client.got(), 1u);
}

TEST_F(RingFunctionTest, ASleeperIsWokenOnce) {
  Client client(function_, VNIC_WANTS_ALL);
  function_.wake_members();
  EXPECT_FALSE(client.was_woken()) << "it does not sleep";
  client.region->client_asleep = 1;
  client.post_empty();
  client.post_empty();
  write(frame_to(function_.mac(), 1));
  function_.wake_members();
  write(frame_to(function_.mac(), 1));
  function_.wake_members();
  EXPECT_TRUE(client.was_woken());
  EXPECT_FALSE(client.was_woken());
}

TEST_F(RingFunctionTest, WrongDescriptorsAreTheirClientsFaultAlone) {
  Client bad(function_, VNIC_WANTS_ALL), good(function_, VNIC_WANTS_ALL);
  Client::post(bad.region->send, 0, 100);
  Client::post(bad.region->send, kAddress + kMemoryBytes - 10, 100);
  Client::post(bad.region->send, kAddress, 0);
  Client::post(bad.region->send, kAddress, VNIC_FUNCTION_FRAME_MAX + 1);
  Client::post(bad.region->send, kAddress, 0xffffffff);
  good.send(frame_to(kElsewhere, 1));
  EXPECT_EQ(read(), 66u);
  EXPECT_EQ(read(), 0u);
  EXPECT_EQ(bad.member->faults(), 5u);
  release(bad.region->send.posted, bad.region->send.posted + VNIC_SLOTS + 1);
  EXPECT_EQ(read(), 0u);
  EXPECT_EQ(bad.member->faults(), 6u);
  good.post_empty();
  Client::post(bad.region->receive, 0x1234, 2048);
  EXPECT_TRUE(write(frame_to(function_.mac(), 1)));
  EXPECT_EQ(good.got(), 1u);
  EXPECT_EQ(good.member->faults(), 0u);
}

TEST_F(RingFunctionTest, WhatAClientCanMakeTheCardKeepIsBounded) {
  Client client(function_, VNIC_WANTS_ALL);
  const UniqueFd file(memfd_create("more", 0));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  for (std::uint64_t i = 1; i < VNIC_FUNCTION_PIECES_MAX; ++i) {
    EXPECT_TRUE(client.member->add_memory({i << 32, 4096, 0}, file.get()));
  }
  EXPECT_EQ(client.member->add_memory({99ull << 32, 4096, 0}, file.get()).error().code, ENOSPC);
  std::vector<std::unique_ptr<Client>> others;
  for (std::size_t i = 1; i < VNIC_FUNCTION_CLIENTS_MAX; ++i) {
    others.push_back(std::make_unique<Client>(function_, VNIC_WANTS_ALL));
  }
  EXPECT_EQ(
      function_.join(-1, {.function = 0, .wants = VNIC_WANTS_ALL, .qpn_range = 0, .qpn_shift = 0})
          .error()
          .code,
      ENOSPC);
}

TEST_F(RingFunctionTest, NonsensicalWishesAreRefused) {
  for (const vnic_join& wish : {vnic_join{0, 0x10, 0, 0}, {0, 0x8000, 0, 0}, {0, 1, 0, 25}}) {
    EXPECT_EQ(function_.join(-1, wish).error().code, EINVAL);
  }
  EXPECT_TRUE(function_.members().empty());
}

TEST_F(RingFunctionTest, AFloodToItselfLeavesOthersTheirTurn) {
  Client flood(function_, VNIC_WANTS_ALL);
  for (int i = 0; i < 500; ++i) flood.send(frame_to(function_.mac(), 1));
  EXPECT_EQ(read(), 0u);
  flood.member->publish();
  EXPECT_LT(flood.region->send.done, 500u);
}

TEST_F(RingFunctionTest, ThePayloadOfALargePacketStaysUntilItIsPublished) {
  Client client(function_, VNIC_WANTS_ALL), receiver(function_, VNIC_WANTS_ROCE_V1, 1);
  auto frame = frame_to(kElsewhere, 1 << 14);
  frame.resize(4200, std::byte{7});
  client.send(frame);
  ASSERT_EQ(read(), frame.size());
  ASSERT_FALSE(rest_.empty());
  const std::size_t head = frame.size() - rest_.size();
  EXPECT_EQ(client.region->send.done, 0u);
  receiver.post_empty(4608);
  // What the client writes now into what was looked at changes nothing.
  store_be24(&client.memory[14 + 40 + 5], 9 << 14);
  EXPECT_TRUE(function_.write(ByteSpan(room_).first(head), rest_, {}));
  EXPECT_EQ(receiver.got(), 1u);
  EXPECT_EQ(receiver.region->receive.slots[0].length, frame.size());
  EXPECT_EQ(std::memcmp(receiver.memory + 4096, frame.data(), frame.size()), 0);
  client.member->publish();
  EXPECT_EQ(client.region->send.done, 1u);
}

TEST_F(RingFunctionTest, OtherLargeFramesAreCopiedWhole) {
  Client client(function_, VNIC_WANTS_ALL);
  auto frame = frame_to(kElsewhere, 1);
  frame.resize(4200, std::byte{7});
  store_be<std::uint16_t>(&frame[12], 0x88b5);
  client.send(frame);
  ASSERT_EQ(read(), frame.size());
  EXPECT_TRUE(rest_.empty());
  EXPECT_EQ(std::memcmp(room_.data(), frame.data(), frame.size()), 0);
}

}  // namespace
}  // namespace verbatim::offload

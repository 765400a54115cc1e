// Two nodes and more, in virtual time.
#include <array>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "ulp/rds/wire/connect.h"
#include "ulp/rds/world_for_test.h"

namespace verbatim::ulp::rds {
namespace {

ByteSpan text(const char* words) { return std::as_bytes(std::span(words, std::strlen(words))); }

std::string words_of(const World::Received& received) {
  return {reinterpret_cast<const char*>(received.bytes.data()), received.bytes.size()};
}

TEST(RdsBroker, MessageAndAnswer) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& there = world.open(1, 4001);
  ASSERT_TRUE(world.send(here, there.own, text("hello")));
  world.run();
  ASSERT_EQ(there.read.size(), 1u);
  EXPECT_EQ(words_of(there.read[0]), "hello");
  EXPECT_EQ(there.read[0].from, here.own);
  ASSERT_TRUE(world.send(there, there.read[0].from, text("and back")));
  world.run();
  ASSERT_EQ(here.read.size(), 1u);
  EXPECT_EQ(words_of(here.read[0]), "and back");
  EXPECT_EQ(world.links(), 1u);
  EXPECT_EQ(world.pool(0).free(), 4096u);
  EXPECT_EQ(world.pool(1).free(), 4096u);
}

TEST(RdsBroker, AllLengthsComeWhole) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& there = world.open(1, 4001);
  const std::size_t lengths[] = {0, 1, 4095, 4096, 4097, 8192, 65'536, kMessageBytesMax};
  for (const std::size_t bytes : lengths)
    ASSERT_TRUE(world.send(here, there.own, content_of(bytes, bytes)));
  world.run();
  ASSERT_EQ(there.read.size(), std::size(lengths));
  for (std::size_t i = 0; i < std::size(lengths); ++i)
    EXPECT_EQ(there.read[i].bytes, content_of(lengths[i], lengths[i]));
}

TEST(RdsBroker, AddressesAreTheNodesAndPortsAreTakenOnce) {
  World world({});
  Broker& broker = world.broker(0);
  for (std::uint32_t i = 100; i < 104; ++i) ASSERT_TRUE(broker.open(SocketId{i}));
  EXPECT_EQ(broker.bind(SocketId{100}, World::address(1, 5)).error().code, EADDRNOTAVAIL);
  ASSERT_TRUE(broker.bind(SocketId{100}, World::address(0, 5)));
  EXPECT_EQ(broker.bind(SocketId{100}, World::address(0, 6)).error().code, EINVAL);
  EXPECT_EQ(broker.bind(SocketId{101}, World::address(0, 5)).error().code, EADDRINUSE);
  EXPECT_GE(broker.bind(SocketId{102}, World::address(0))->port(), 2);
  broker.close(SocketId{100});
  EXPECT_TRUE(broker.bind(SocketId{103}, World::address(0, 5)));
  EXPECT_EQ(broker.send(SocketId{101}, World::address(1, 1), {}, 0).error().code, ENOTCONN);
  EXPECT_EQ(broker.send(SocketId{103}, {}, {}, 0).error().code, ENOTCONN);
  EXPECT_EQ(broker.send(SocketId{103}, *SocketAddress::parse("::1", 5), {}, 0).error().code,
            EOPNOTSUPP);
}

TEST(RdsBroker, PingIsAnsweredWithoutAProgram) {
  World world({});
  auto& here = world.open(0, 4000);
  ASSERT_TRUE(world.send(here, World::address(1, 0), {}));
  ASSERT_TRUE(world.send(here, World::address(0, 0), {}));
  world.run();
  ASSERT_EQ(here.read.size(), 2u);
  EXPECT_EQ(here.read[0].from, World::address(0, 0));
  EXPECT_EQ(here.read[1].from, World::address(1, 0));
  EXPECT_TRUE(here.read[1].bytes.empty());
}

TEST(RdsBroker, MessagesOfANodeToItselfNeedNoQueuePair) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& there = world.open(0, 4001);
  ASSERT_TRUE(world.send(here, there.own, content_of(1, 100'000)));
  world.run();
  ASSERT_EQ(there.read.size(), 1u);
  EXPECT_EQ(there.read[0].bytes, content_of(1, 100'000));
  EXPECT_EQ(world.links(), 0u);
}

TEST(RdsBroker, BothAskAtOnce) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    World world({.seed = seed, .fragments = 64});
    auto& here = world.open(0, 4000);
    auto& there = world.open(1, 4000);
    ASSERT_TRUE(world.send(here, there.own, text("a")));
    ASSERT_TRUE(world.send(there, here.own, text("b")));
    world.run();
    ASSERT_EQ(here.read.size(), 1u) << "seed " << seed;
    ASSERT_EQ(there.read.size(), 1u) << "seed " << seed;
    ASSERT_EQ(world.links(), 1u) << "seed " << seed;
  }
}

TEST(RdsBroker, OnlyTheCongestedPortWaits) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& deaf = world.open(1, 4001);
  auto& there = world.open(1, 4002);
  deaf.reads = false;
  deaf.room = 1;
  world.broker(1).find(deaf.socket)->receive_limit = 100'000;
  for (std::uint64_t i = 0; i < 5; ++i)
    ASSERT_TRUE(world.send(here, deaf.own, content_of(i, 50'000)));
  world.run(2'000);
  EXPECT_EQ(world.broker(0).may_send(here.socket, deaf.own, 0).error().code, ENOBUFS);
  EXPECT_EQ(world.broker(0).may_send(here.socket, deaf.own, 77).error().code, EINPROGRESS);
  EXPECT_TRUE(world.broker(0).may_send(here.socket, there.own, 0));
  ASSERT_TRUE(world.send(here, there.own, text("goes on")));
  world.run(2'000);
  EXPECT_EQ(there.read.size(), 1u);
  EXPECT_TRUE(here.allowed.empty());
  deaf.reads = true;
  world.broker(1).on_room(deaf.socket);
  world.run(5'000);
  EXPECT_EQ(deaf.read.size(), 5u);
  EXPECT_EQ(here.allowed, std::vector<std::uint64_t>{77});
  EXPECT_EQ(here.news, std::uint64_t{1} << (4001 % 64));
  EXPECT_TRUE(world.broker(0).may_send(here.socket, deaf.own, 0));
}

TEST(RdsBroker, AMonitorHearsOfThePortsThatHaveRefusedIt) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& other = world.open(0, 4005);
  auto& deaf = world.open(1, 4001);
  deaf.reads = false;
  deaf.room = 1;
  world.broker(1).find(deaf.socket)->receive_limit = 1000;
  for (const SocketId id : {here.socket, other.socket}) world.broker(0).find(id)->monitors = true;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.send(here, deaf.own, content_of(0, 2000)));
  world.run(2'000);
  EXPECT_EQ(world.broker(0).may_send(here.socket, deaf.own, 0).error().code, ENOBUFS);
  deaf.reads = true;
  world.broker(1).on_room(deaf.socket);
  world.run(2'000);
  EXPECT_EQ(here.news, std::uint64_t{1} << (4001 % 64));
  EXPECT_EQ(other.news, 0u);
}

TEST(RdsBroker, ASenderIsPausedAtItsLimit) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& there = world.open(1, 4001);
  world.set_apart(true);
  world.broker(0).find(here.socket)->send_limit = 10'000;
  ASSERT_TRUE(world.send(here, there.own, content_of(0, 9'999)));
  EXPECT_FALSE(here.is_paused);
  ASSERT_TRUE(world.send(here, there.own, content_of(1, 1)));
  EXPECT_TRUE(here.is_paused);
  world.run(1'000);
  EXPECT_TRUE(here.is_paused);
  world.set_apart(false);
  world.run(500'000);
  EXPECT_FALSE(here.is_paused);
  EXPECT_EQ(there.read.size(), 2u);
}

TEST(RdsBroker, WhatIsCancelledBeforeItIsSentNeverComes) {
  World world({});
  auto& here = world.open(0, 4000);
  auto& first = world.open(1, 4001);
  auto& second = world.open(1, 4002);
  world.set_apart(true);
  ASSERT_TRUE(world.send(here, first.own, text("cancelled")));
  ASSERT_TRUE(world.send(here, second.own, text("stays")));
  world.broker(0).cancel(here.socket, first.own);
  EXPECT_EQ(world.broker(0).find(here.socket)->send_bytes, 5u);
  world.set_apart(false);
  world.run(500'000);
  EXPECT_TRUE(first.read.empty());
  EXPECT_EQ(second.read.size(), 1u);
}

TEST(RdsBroker, WhatAPeerSendsBeyondItsShareComesLater) {
  World world({.fragments = 8192});
  auto& here = world.open(0, 4000);
  auto& deaf = world.open(1, 4001);
  deaf.reads = false;
  deaf.room = 1;
  world.broker(0).find(here.socket)->send_limit = 64 << 20;
  for (std::uint64_t i = 0; i < 8; ++i)
    ASSERT_TRUE(world.send(here, deaf.own, content_of(i, kMessageBytesMax)));
  world.run(10'000);
  EXPECT_LE(world.peer(1, 0)->held_bytes, 4u << 20);
  deaf.reads = true;
  world.broker(1).on_room(deaf.socket);
  world.run(500'000);
  ASSERT_EQ(deaf.read.size(), 8u);
  for (std::uint64_t i = 0; i < 8; ++i)
    EXPECT_EQ(deaf.read[i].bytes, content_of(i, kMessageBytesMax));
}

TEST(RdsBroker, MessagesOfAClosedSocketAreGivenUpIfNobodyIsThere) {
  World world({});
  auto& here = world.open(0, 4000);
  world.set_apart(true);
  ASSERT_TRUE(world.send(here, World::address(1, 1), text("lost")));
  world.broker(0).close(here.socket);
  EXPECT_FALSE(world.broker(0).is_idle());
  world.run(5'000'000);
  EXPECT_TRUE(world.broker(0).is_idle());
  EXPECT_EQ(world.broker(0).counters().given_up, 1u);
  EXPECT_EQ(world.pool(0).free(), 4096u);
}

TEST(RdsBroker, PeersAreBoundedAndThoseWhoAreGoneMakeRoom) {
  World world({.peers_max = 2});
  auto& here = world.open(0, 4000);
  world.set_apart(true);
  for (const std::size_t there : {1, 2})
    ASSERT_TRUE(world.send(here, World::address(there, 1), {}));
  EXPECT_EQ(world.send(here, World::address(3, 1), {}).error().code, ENOBUFS);
  world.broker(0).close(here.socket);
  world.run(5'000'000);
  auto& again = world.open(0, 4000);
  ASSERT_TRUE(world.send(again, World::address(3, 1), {}));
  ASSERT_TRUE(world.send(again, World::address(4, 1), {}));
  EXPECT_EQ(world.broker(0).peers().size(), 2u);
}

TEST(RdsBroker, AnEmptyMessageOutlivesItsPeer) {
  World world({.nodes = 3, .peers_max = 1});
  auto& here = world.open(0, 4000);
  auto& there = world.open(1, 4001);
  here.reads = false;
  here.room = 0;
  ASSERT_TRUE(world.send(there, here.own, {}));
  world.run(2'000);
  world.set_apart(true);
  world.run(2'000);
  ASSERT_TRUE(world.send(here, World::address(2, 1), {}));  // The other peer makes room.
  EXPECT_EQ(world.peer(0, 1), nullptr);
  here.room = 1;
  here.reads = true;
  world.broker(0).on_room(here.socket);
  world.run(100);
  EXPECT_EQ(here.read.size(), 1u);
}

struct Hostile {
  const char* name;
  Header header;
  std::size_t bytes;
};
const Hostile kHostile[] = {
    {"no header", {}, 0},
    {"too long", {.sequence = 9, .bytes = kMessageBytesMax + 1, .destination_port = 4000}, 4096},
    {"more than it says", {.sequence = 9, .bytes = 5, .destination_port = 4000}, 6},
    {"less than it says", {.sequence = 9, .bytes = 5, .destination_port = 4000}, 4},
    {"a short first fragment", {.sequence = 9, .bytes = 5000, .destination_port = 4000}, 5},
    {"a short map", {.bytes = 16, .flags = Header::kMap}, 16},
};

TEST(RdsBroker, WhoBreaksTheRulesLosesTheQueuePairAlone) {
  for (const Hostile& hostile : kHostile) {
    SCOPED_TRACE(hostile.name);
    World world({});
    auto& here = world.open(0, 4000);
    auto& there = world.open(1, 4001);
    ASSERT_TRUE(world.send(here, there.own, text("first")));
    world.run();
    std::vector<std::byte> bytes(hostile.bytes == 0 ? 3 : Header::kSize + hostile.bytes);
    if (hostile.bytes > 0)
      encode(hostile.header, std::span<std::byte, Header::kSize>(bytes.data(), Header::kSize));
    world.inject(0, 1, bytes);
    EXPECT_EQ(world.broker(0).counters().faults, 1u);
    ASSERT_TRUE(world.send(here, there.own, text("second")));
    world.run(200'000);
    ASSERT_EQ(there.read.size(), 2u);
    EXPECT_TRUE(here.read.empty());
  }
}

TEST(RdsBroker, RequestsAreCheckedBeforeTheyAreAccepted) {
  World world({});
  const auto asks = [&](const ConnectData& data) {
    const auto before = world.broker(0).counters().refused;
    world.ask(1, 0, encode(data));
    for (int i = 0; i < 100; ++i) world.step();
    EXPECT_EQ(world.broker(0).counters().refused, before + 1);
    EXPECT_EQ(world.links(), 0u);
  };
  asks({.source = World::address(1), .destination = World::address(0), .version = {3, 0}});
  asks({.source = World::address(1), .destination = World::address(0), .version = {5, 0}});
  asks({.source = World::address(2), .destination = World::address(0)});  // Another's address.
  asks({.source = World::address(1), .destination = World::address(2)});
}

}  // namespace
}  // namespace verbatim::ulp::rds

#include <sys/socket.h>
#include <unistd.h>

#include "connect/fake_host_for_test.h"

namespace verbatim::connect {
namespace {

constexpr std::uint16_t kPort = 7174;

/// A loopback address that no other test process uses.
SocketAddress own_address(std::uint8_t which) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  return SocketAddress::ipv4({127, static_cast<std::uint8_t>(which + (pid >> 16 & 0x1f)),
                              static_cast<std::uint8_t>(pid >> 8), static_cast<std::uint8_t>(pid)});
}

struct MpaBench : Bench {
  MpaBench() {
    make(a, own_address(32));
    make(b, own_address(64));
  }
  static void make(Side& side, const SocketAddress& address) {
    side.address = address;
    side.addresses.add({.address = address});
    side.service = make_mpa_service(side.host, side.host, side.addresses, 7, "").value();
  }
  ListenerId listen(const SocketAddress& at, int backlog = 0) {
    return b.service->listen({.address = at.with_port(kPort)}, backlog).value();
  }
  ListenerId listen(int backlog = 0) { return listen(b.address, backlog); }
  ConnectionId connect_to(const SocketAddress& remote, ByteSpan private_data = {}) {
    return a.service
        ->connect({.path = {.local = a.address, .remote = StreamPath{remote.with_port(kPort)}},
                   .offer = {.qpn = Qpn(0xa1), .responder_resources = 3, .initiator_depth = 5},
                   .private_data = private_data})
        .value();
  }
  ConnectionId connect(ByteSpan private_data = {}) { return connect_to(b.address, private_data); }
  static AcceptParameters yes(ByteSpan private_data = {}) {
    return {.offer = {.qpn = Qpn(0xb1), .responder_resources = 4, .initiator_depth = 2},
            .private_data = private_data};
  }
  std::optional<ConnectRequest> request() {
    EXPECT_TRUE(until_told(b));
    return b.host.only<ConnectRequest>();
  }
  struct Ids {
    ConnectionId a{}, b{};
  };
  Ids connected() {
    Ids ids{.a = connect()};
    ids.b = request().value().connection;
    EXPECT_TRUE(b.service->accept(ids.b, yes()));
    EXPECT_TRUE(b.host.only<Established>());
    EXPECT_TRUE(until_told(a));
    EXPECT_TRUE(a.host.only<ConnectResponse>());
    EXPECT_TRUE(a.service->establish(ids.a));
    return ids;
  }
};

TEST(MpaService, ConnectsAndHandsTheStreamsToTheQueuePairs) {
  MpaBench bench;
  bench.listen();
  const ConnectionId id = bench.connect(bytes_of("hello"));
  const auto request = bench.request();
  ASSERT_TRUE(request);
  EXPECT_TRUE(begins_with(request->private_data, "hello"));
  EXPECT_EQ(request->path.local, bench.b.address);
  EXPECT_EQ(address_of(request->path.remote), bench.a.address);
  EXPECT_EQ(request->peer.responder_resources, 5);
  EXPECT_EQ(request->peer.initiator_depth, 3);

  ASSERT_TRUE(bench.b.service->accept(request->connection, MpaBench::yes(bytes_of("welcome"))));
  EXPECT_EQ(bench.b.host.only<Established>()->connection, request->connection);
  ASSERT_EQ(bench.b.host.streams.size(), 1u);
  EXPECT_EQ(bench.b.host.streams[0].qpn, Qpn(0xb1));
  EXPECT_FALSE(bench.b.host.streams[0].is_initiator);

  ASSERT_TRUE(bench.until_told(bench.a));
  const auto response = bench.a.host.only<ConnectResponse>();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->connection, id);
  EXPECT_TRUE(begins_with(response->private_data, "welcome"));
  EXPECT_TRUE(bench.a.host.streams.empty());  // The program's queue pair may not be ready yet.
  ASSERT_TRUE(bench.a.service->establish(id));
  ASSERT_EQ(bench.a.host.streams.size(), 1u);
  EXPECT_EQ(bench.a.host.streams[0].qpn, Qpn(0xa1));
  EXPECT_TRUE(bench.a.host.streams[0].is_initiator);
  EXPECT_TRUE(bench.a.host.streams[0].agreed.has_crc);
}

TEST(MpaService, TheQueuePairGetsWhatHasComeBeforeTheEndIsTold) {
  MpaBench bench;
  bench.listen();
  const auto ids = bench.connected();
  shutdown(bench.b.host.streams[0].socket.get(), SHUT_WR);  // The peer's queue pair ends its side.
  ASSERT_TRUE(bench.until_told(bench.a));
  EXPECT_EQ(bench.a.host.only<StreamEnded>()->connection, ids.a);
  EXPECT_EQ(bench.a.host.drained, std::vector{Qpn(0xa1)});
}

/// As over a card: the peer may keep its side open as long as it likes.
TEST(MpaService, AfterDisconnectTheEndIsToldAtOnce) {
  MpaBench bench;
  bench.listen();
  const auto ids = bench.connected();
  ASSERT_TRUE(bench.a.service->disconnect(ids.a));
  EXPECT_EQ(bench.a.host.only<StreamEnded>()->connection, ids.a);
  ASSERT_TRUE(bench.until_told(bench.b));
  EXPECT_EQ(bench.b.host.only<StreamEnded>()->connection, ids.b);
  bench.pass(20 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
}

TEST(MpaService, AQueuePairThatHasMoreToSendEndsFirst) {
  MpaBench bench;
  bench.listen();
  const auto ids = bench.connected();
  bench.a.host.has_more_to_send = true;
  ASSERT_TRUE(bench.a.service->disconnect(ids.a));
  bench.pass(9 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.a.host.has_more_to_send = false;
  bench.pass(kSecond / 2);
  EXPECT_EQ(bench.a.host.only<StreamEnded>()->connection, ids.a);
}

TEST(MpaService, AQueuePairThatDoesNotEndHasTenSeconds) {
  MpaBench bench;
  bench.listen();
  const auto ids = bench.connected();
  bench.a.host.has_more_to_send = true;
  ASSERT_TRUE(bench.a.service->disconnect(ids.a));
  bench.pass(9 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.pass(2 * kSecond);
  EXPECT_EQ(bench.a.host.only<StreamEnded>()->connection, ids.a);
}

TEST(MpaService, ARejectedRequestTellsWhy) {
  MpaBench bench;
  bench.listen();
  const ConnectionId id = bench.connect();
  const auto request = bench.request();
  ASSERT_TRUE(bench.b.service->reject(request->connection, RejectReason::consumer, bytes_of("no")));
  ASSERT_TRUE(bench.until_told(bench.a));
  const auto failed = bench.a.host.only<StreamFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->connection, id);
  EXPECT_EQ(failed->error, ECONNREFUSED);
  EXPECT_TRUE(begins_with(failed->private_data, "no"));
}

TEST(MpaService, WhereNobodyListensTheRefusalIsToldAfterAMomentAndNotWithinTheCall) {
  MpaBench bench;
  const ConnectionId id = bench.connect();
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.pass(2 * kSecond);
  const auto failed = bench.a.host.only<StreamFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->connection, id);
  EXPECT_EQ(failed->error, ECONNREFUSED);
}

TEST(MpaService, AnAddressOfAnotherMachineFailsAfterTheCall) {
  MpaBench bench;
  bench.a.address = SocketAddress::ipv4({192, 0, 2, 1});
  const ConnectionId id = bench.connect();
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.pass(10 * kMillisecond);
  const auto failed = bench.a.host.only<StreamFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->connection, id);
  EXPECT_EQ(failed->error, EADDRNOTAVAIL);
}

TEST(MpaService, APeerThatDoesNotReplyHasTenSeconds) {
  MpaBench bench;
  bench.listen();
  bench.connect();
  ASSERT_TRUE(bench.request());  // Its program does not answer.
  bench.pass(9 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.pass(2 * kSecond);
  EXPECT_EQ(bench.a.host.only<StreamFailed>()->error, ETIMEDOUT);
}

TEST(MpaService, BeyondTheBacklogRequestsAreTurnedAwayUntilOneIsTaken) {
  MpaBench bench;
  bench.listen(1);
  bench.connect();
  const auto first = bench.request();
  ASSERT_TRUE(first);
  bench.connect();
  bench.pass(2 * kSecond);
  EXPECT_TRUE(bench.b.host.told.empty());
  EXPECT_EQ(bench.a.host.only<StreamFailed>()->error, ECONNREFUSED);
  bench.b.service->note_taken(first->connection);
  bench.connect();
  EXPECT_TRUE(bench.request());
}

TEST(MpaService, AListenerAtAnyAddressListensAtNewOnesToo) {
  MpaBench bench;
  bench.listen(SocketAddress::ipv4({0, 0, 0, 0}));
  const SocketAddress later = own_address(96);
  bench.connect_to(later);
  bench.pass(2 * kSecond);
  EXPECT_EQ(bench.a.host.only<StreamFailed>()->error, ECONNREFUSED);
  bench.b.addresses.add({.address = later});
  bench.b.service->on_addresses_changed();
  bench.connect_to(later);
  EXPECT_EQ(bench.request()->path.local, later);
}

TEST(MpaService, WhoHasStoppedListeningIsFoundNoMore) {
  MpaBench bench;
  bench.b.service->unlisten(bench.listen());
  bench.connect();
  bench.pass(2 * kSecond);
  EXPECT_EQ(bench.a.host.only<StreamFailed>()->error, ECONNREFUSED);
}

TEST(MpaService, AnAddressThatIsTakenIsRefused) {
  MpaBench bench;
  bench.listen();
  const auto refused = bench.b.service->listen({.address = bench.b.address.with_port(kPort)}, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRINUSE);
}

TEST(MpaService, AQueuePairThatTakesNoStreamEndsTheConnection) {
  MpaBench bench;
  bench.listen();
  bench.connect();
  const auto request = bench.request();
  bench.b.host.refuses_streams = true;
  ASSERT_TRUE(bench.b.service->accept(request->connection, MpaBench::yes()));
  EXPECT_EQ(bench.b.host.told.size(), 1u);
  EXPECT_FALSE(bench.b.host.only<Established>());
}

TEST(MpaService, ReleaseEndsTheStreamWithoutAnEvent) {
  MpaBench bench;
  bench.listen();
  const auto ids = bench.connected();
  bench.a.host.streams.clear();
  bench.a.service->release(ids.a);
  ASSERT_TRUE(bench.until_told(bench.b));
  EXPECT_TRUE(bench.b.host.only<StreamEnded>());
  bench.pass(20 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
}

TEST(MpaService, WhatStreamsDoNotHaveIsRefused) {
  MpaBench bench;
  EXPECT_TRUE(bench.a.service->uses_streams());
  EXPECT_EQ(bench.a.service->resolve({}).error().code, EOPNOTSUPP);
  EXPECT_EQ(bench.a.service->answer({}, {}).error().code, EOPNOTSUPP);
  EXPECT_EQ(bench.a.service->notify_established({}).error().code, EINVAL);
  const auto refused = make_mpa_service(bench.a.host, bench.a.host, bench.a.addresses, 7, "mark");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::connect

#include "connect/fake_host_for_test.h"

namespace verbatim::connect {
namespace {

constexpr std::uint16_t kPort = 7174;

struct IbBench : Bench {
  IbBench() {
    make(a, {10, 0, 0, 1}, 3);
    make(b, {10, 0, 0, 2}, 5);
  }
  static void make(Side& side, std::array<std::uint8_t, 4> address, std::uint16_t slot) {
    side.address = SocketAddress::ipv4(address);
    side.service = make_ib_service(side.host, side.host,
                                   {.slot = slot, .node_guid = slot, .seed = slot * 77ull})
                       .value();
  }
  ListenerId listen(int backlog = 0) {
    return b.service
        ->listen({.service = service_id_of(PortSpace::tcp, kPort),
                  .address = SocketAddress::ipv4({0, 0, 0, 0})},
                 backlog)
        .value();
  }
  ConnectionId connect(ByteSpan private_data = {}, Qpn qpn = Qpn(0xa1)) {
    return a.service
        ->connect({.service = service_id_of(PortSpace::tcp, kPort),
                   .path = {.local = a.address, .remote = roce_path(b.address)},
                   .ends = {a.address.with_port(5555), b.address.with_port(kPort)},
                   .offer = {.qpn = qpn, .starting_psn = Psn(0xa2)},
                   .private_data = private_data})
        .value();
  }
  static AcceptParameters yes() { return {.offer = {.qpn = Qpn(0xb1), .starting_psn = Psn(0xb2)}}; }
  struct Ids {
    ConnectionId a{}, b{};
  };
  Ids connected() {
    Ids ids{.a = connect()};
    deliver();
    ids.b = b.host.only<ConnectRequest>().value().connection;
    EXPECT_TRUE(b.service->accept(ids.b, yes()));
    deliver();
    EXPECT_TRUE(a.host.only<ConnectResponse>());
    EXPECT_TRUE(a.service->establish(ids.a));
    deliver();
    EXPECT_TRUE(b.host.only<Established>());
    return ids;
  }
};

TEST(IbService, ConnectsAndTellsTheAgentHowFarItIs) {
  IbBench bench;
  bench.listen();
  const ConnectionId id = bench.connect(bytes_of("hello"));
  ASSERT_EQ(bench.a.host.notes.size(), 1u);
  EXPECT_FALSE(bench.a.host.notes[0].is_established);
  EXPECT_EQ(bench.a.host.notes[0].local_id, id);
  EXPECT_EQ(bench.a.host.notes[0].remote, roce_path(bench.b.address));
  bench.deliver();

  const auto request = bench.b.host.only<ConnectRequest>();
  ASSERT_TRUE(request);
  EXPECT_TRUE(begins_with(request->private_data, "hello"));
  EXPECT_TRUE(bench.b.host.notes.empty());  // The peer repeats its request until it is answered.
  ASSERT_TRUE(bench.b.service->accept(request->connection, IbBench::yes()));
  ASSERT_EQ(bench.b.host.notes.size(), 1u);
  EXPECT_TRUE(bench.b.host.notes[0].has_sent_reply);
  EXPECT_FALSE(bench.b.host.notes[0].is_established);
  EXPECT_EQ(bench.b.host.notes[0].remote_id, raw(id));
  EXPECT_EQ(bench.b.host.notes[0].remote_qpn, Qpn(0xa1));
  bench.deliver();

  const auto response = bench.a.host.only<ConnectResponse>();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->peer.qpn, Qpn(0xb1));
  EXPECT_TRUE(bench.a.host.notes[0].is_established);
  EXPECT_FALSE(bench.a.host.notes[0].has_sent_reply);
  EXPECT_EQ(bench.a.host.notes[0].remote_id, raw(request->connection));
  EXPECT_EQ(bench.a.host.notes[0].remote_qpn, Qpn(0xb1));
  ASSERT_TRUE(bench.a.service->establish(id));
  bench.deliver();
  EXPECT_EQ(bench.b.host.only<Established>()->connection, request->connection);
  EXPECT_TRUE(bench.b.host.notes[0].is_established);
}

TEST(IbService, BothSidesHearOfTheEndAndLaterThatTheQueuePairIsFree) {
  IbBench bench;
  bench.listen();
  const auto ids = bench.connected();
  ASSERT_TRUE(bench.a.service->disconnect(ids.a));
  bench.deliver();
  EXPECT_EQ(bench.a.host.only<Disconnected>()->connection, ids.a);
  EXPECT_EQ(bench.b.host.only<Disconnected>()->connection, ids.b);
  EXPECT_TRUE(bench.a.host.notes.empty());
  EXPECT_TRUE(bench.b.host.notes.empty());
  bench.pass(10 * kSecond);
  EXPECT_TRUE(bench.a.host.only<TimeWaitExit>());
  EXPECT_TRUE(bench.b.host.only<TimeWaitExit>());
}

TEST(IbService, ARejectedRequestIsOverOnBothSides) {
  IbBench bench;
  bench.listen();
  const ConnectionId id = bench.connect();
  bench.deliver();
  const auto request = bench.b.host.only<ConnectRequest>();
  ASSERT_TRUE(request);
  ASSERT_TRUE(bench.b.service->reject(request->connection, RejectReason::consumer, bytes_of("no")));
  bench.deliver();
  const auto rejected = bench.a.host.only<Rejected>();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->connection, id);
  EXPECT_EQ(rejected->reason, RejectReason::consumer);
  EXPECT_TRUE(begins_with(rejected->private_data, "no"));
  EXPECT_TRUE(bench.a.host.notes.empty());
  EXPECT_TRUE(bench.b.host.notes.empty());
  EXPECT_FALSE(bench.b.service->accept(request->connection, IbBench::yes()));
}

TEST(IbService, NobodyListens) {
  IbBench bench;
  bench.connect();
  bench.deliver();
  EXPECT_EQ(bench.a.host.only<Rejected>()->reason, RejectReason::invalid_service_id);
}

TEST(IbService, ASilentPeerIsUnreachableAfterAllRepetitions) {
  IbBench bench;
  const ConnectionId id = bench.connect();
  EXPECT_EQ(bench.a.host.mads.size(), 1u);
  bench.a.host.mads.clear();
  bench.pass(1500 * kMillisecond, false);
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.pass(60 * kSecond, false);
  EXPECT_EQ(bench.a.host.only<Unreachable>()->connection, id);
  EXPECT_TRUE(bench.a.host.notes.empty());
}

TEST(IbService, APeerThatHasGoneDoesNotHoldUpADisconnect) {
  IbBench bench;
  bench.listen();
  const auto ids = bench.connected();
  ASSERT_TRUE(bench.a.service->disconnect(ids.a));
  bench.a.host.mads.clear();
  bench.pass(60 * kSecond, false);
  ASSERT_EQ(bench.a.host.told.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<Disconnected>(bench.a.host.told[0]));
  EXPECT_TRUE(std::holds_alternative<TimeWaitExit>(bench.a.host.told[1]));
}

TEST(IbService, BeyondTheBacklogRequestsAreRepeatedUntilOneIsTaken) {
  IbBench bench;
  bench.listen(1);
  bench.connect();
  bench.deliver();
  const auto first = bench.b.host.only<ConnectRequest>();
  ASSERT_TRUE(first);
  bench.connect({}, Qpn(0xa2));
  bench.deliver();
  EXPECT_TRUE(bench.b.host.told.empty());
  EXPECT_TRUE(bench.a.host.told.empty());
  bench.b.service->note_taken(first->connection);
  bench.pass(6 * kSecond, true);
  EXPECT_TRUE(bench.b.host.only<ConnectRequest>());
}

TEST(IbService, WhoHasStoppedListeningIsAskedNoMore) {
  IbBench bench;
  bench.b.service->unlisten(bench.listen());
  bench.connect();
  bench.deliver();
  EXPECT_TRUE(bench.a.host.only<Rejected>());
}

TEST(IbService, ReleaseSaysGoodbyeAndNothingElse) {
  IbBench bench;
  bench.listen();
  const auto ids = bench.connected();
  bench.a.service->release(ids.a);
  EXPECT_TRUE(bench.a.host.notes.empty());
  bench.deliver();
  EXPECT_EQ(bench.b.host.only<Disconnected>()->connection, ids.b);
  bench.pass(10 * kSecond);
  EXPECT_TRUE(bench.a.host.told.empty());
}

TEST(IbService, DataEstablishesWhereTheLastMessageIsLost) {
  IbBench bench;
  bench.listen();
  const ConnectionId id = bench.connect();
  bench.deliver();
  const auto request = bench.b.host.only<ConnectRequest>();
  ASSERT_TRUE(bench.b.service->accept(request->connection, IbBench::yes()));
  bench.deliver();
  ASSERT_TRUE(bench.a.service->establish(id));
  bench.a.host.mads.clear();  // The RTU.
  ASSERT_TRUE(bench.b.service->notify_established(request->connection));
  EXPECT_TRUE(bench.b.host.only<Established>());
  EXPECT_TRUE(bench.b.host.notes[0].is_established);
}

TEST(IbService, EntriesOfTheAgentsTableServeAgainAndRunOut) {
  IbBench bench;
  bench.a.host.entries = 1;
  const ConnectionId first = bench.connect();
  const ConnectionId second = bench.connect();
  ASSERT_EQ(bench.a.host.notes.size(), 1u);
  EXPECT_EQ(bench.a.host.notes[0].local_id, first);
  bench.a.service->release(second);
  EXPECT_EQ(bench.a.host.notes[0].local_id, first);
  bench.a.service->release(first);
  EXPECT_TRUE(bench.a.host.notes.empty());
  EXPECT_EQ(bench.connect(), bench.a.host.notes[0].local_id);
}

TEST(IbService, AServiceOfDatagramsIsResolvedToAQueuePair) {
  IbBench bench;
  const ServiceId service = service_id_of(PortSpace::udp, kPort);
  ASSERT_TRUE(bench.b.service->listen(
      {.service = service, .address = SocketAddress::ipv4({0, 0, 0, 0}), .datagram = true}, 0));
  const auto id = bench.a.service->resolve(
      {.service = service,
       .path = {.local = bench.a.address, .remote = roce_path(bench.b.address)},
       .ends = {bench.a.address.with_port(5555), bench.b.address.with_port(kPort)}});
  ASSERT_TRUE(id);
  bench.deliver();
  const auto request = bench.b.host.only<cm::SidrRequest>();
  ASSERT_TRUE(request);
  ASSERT_TRUE(bench.b.service->answer(request->resolution, {.qpn = Qpn(0xb1), .qkey = QKey{7}}));
  bench.deliver();
  const auto response = bench.a.host.only<cm::SidrResponse>();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, SidrStatus::found);
  EXPECT_EQ(response->qpn, Qpn(0xb1));
  EXPECT_EQ(response->qkey, QKey{7});
}

TEST(IbService, WithoutAClockNothingRingsAndWithoutAStreamNothingIsDrained) {
  IbBench bench;
  EXPECT_FALSE(bench.a.service->uses_streams());
  EXPECT_EQ(bench.a.service->queue_pair_of(0), Qpn{});
  EXPECT_FALSE(bench.a.host.serve(*bench.a.service));
}

}  // namespace
}  // namespace verbatim::connect

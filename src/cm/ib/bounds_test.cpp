// Bounds what peers can make us keep, and for how long; a well-behaved peer can still connect.
#include "cm/ib/cm_test_util.h"
#include "cm/ib/compose.h"

namespace verbatim::cm {
namespace {

constexpr std::uint32_t kFlood = 70'000;

SocketAddress noisy(std::uint32_t number) {
  return SocketAddress::ipv4({172, static_cast<std::uint8_t>(16 + (number >> 16)),
                              static_cast<std::uint8_t>(number >> 8),
                              static_cast<std::uint8_t>(number)});
}
wire::CommunicationId wire_id(ConnectionId id) { return static_cast<wire::CommunicationId>(id); }

template <typename Message>
SendMad to_b(const SocketAddress& from, const Message& message) {
  SendMad mad{.source = from, .destination = roce_path(address_b())};
  encode(wire::CmMad{.transaction = 9, .message = message}, mad.bytes);
  return mad;
}

/// Request `number` from `from`, which asks for the longest waiting time.
wire::CmReq request(std::uint32_t number, const SocketAddress& from) {
  wire::CmReq req{
      .local_id = wire::CommunicationId{number},
      .service_id = wire::service_id_of(PortSpace::tcp, kPort),
      .local_ca_guid = 0xbad,
      .local_qpn = Qpn(number),
      .remote_response_timeout = 31,
      .local_response_timeout = 31,
      .path_mtu = raw(Mtu::k1024),
      .max_cm_retries = 15,
      .primary = {
          .local_gid = gid_of(from), .remote_gid = gid_of(address_b()), .local_ack_timeout = 31}};
  put_request(req.private_data, {from.with_port(1), address_b().with_port(kPort)}, {});
  return req;
}

/// A's request reaches B's user, and B's answer reaches A's user.
void expect_connects(Bench& cm) {
  take<ConnectRequest>(cm.b.effects), take<Rejected>(cm.b.effects);
  take<SendMad>(cm.b.effects), take<TimeWaitExit>(cm.b.effects);
  cm.connected();
}

TEST(Bounds, TimeWaitIsNoLongerThanReasonableWhateverThePeerSays) {
  Bench cm;
  cm.listen();
  cm.b.receive(to_b(noisy(1), request(1, noisy(1))), cm.now);
  const auto id = cm.b.only<ConnectRequest>()->connection;
  ASSERT_TRUE(cm.b.engine.accept(id, Bench::yes(), cm.now, cm.b.effects));
  cm.b.receive(
      to_b(noisy(1), wire::CmDreq{.local_id = wire::CommunicationId{1}, .remote_id = wire_id(id)}),
      cm.now);
  EXPECT_TRUE(cm.b.only<Disconnected>());
  EXPECT_LE(cm.b.engine.deadline(), cm.now + 9 * kSecond);
  EXPECT_GT(cm.b.engine.deadline(), cm.now + 8 * kSecond);
}

TEST(Bounds, TimeWaitLeavesRoomForConnections) {
  Bench cm;
  cm.listen();
  std::size_t left = 0;
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    cm.b.receive(to_b(noisy(1), request(i, noisy(1))), cm.now);
    const auto asked = cm.b.only<ConnectRequest>();
    ASSERT_TRUE(asked) << "cycle " << i;
    ASSERT_TRUE(cm.b.engine.accept(asked->connection, Bench::yes(), cm.now, cm.b.effects));
    cm.b.receive(to_b(noisy(1), wire::CmDreq{.local_id = wire::CommunicationId{i},
                                             .remote_id = wire_id(asked->connection)}),
                 cm.now);
    left += take<TimeWaitExit>(cm.b.effects).size();
    cm.b.effects.clear();
  }
  EXPECT_EQ(cm.b.engine.size(), Settings().ending_max);
  EXPECT_EQ(cm.b.engine.size() + left,
            kFlood);  // The oldest were dropped, and their users were told.
  expect_connects(cm);
}

TEST(Bounds, DisconnectRequestsThatNobodyAnswersLeaveRoomForConnections) {
  Bench cm;
  cm.listen();
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    cm.b.receive(to_b(noisy(i), request(i, noisy(i))), cm.now);
    const auto asked = cm.b.only<ConnectRequest>();
    ASSERT_TRUE(asked) << "cycle " << i;
    ASSERT_TRUE(cm.b.engine.accept(asked->connection, Bench::yes(), cm.now, cm.b.effects));
    cm.b.engine.release(asked->connection, cm.now, cm.b.effects);
    cm.b.effects.clear();
  }
  EXPECT_EQ(cm.b.engine.size(), Settings().ending_max);
  expect_connects(cm);
}

/// The effects of `kFlood` requests that no user answers, by kind.
struct Came {
  std::size_t requests = 0, mads = 0, rejected = 0;
};
Came flood(Bench& cm, bool from_many) {
  Came came;
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    const SocketAddress from = noisy(from_many ? i : 1);
    cm.b.receive(to_b(from, request(i, from)), cm.now);
    came.requests += take<ConnectRequest>(cm.b.effects).size();
    came.mads += take<SendMad>(cm.b.effects).size();
    came.rejected += take<Rejected>(cm.b.effects).size();
  }
  return came;
}

TEST(Bounds, OneSourcesRequestsThatNobodyTakesEndAtTheBacklog) {
  Bench cm;
  cm.listen();
  const Came came = flood(cm, false);
  EXPECT_EQ(came.requests, ListenAt().backlog);
  EXPECT_EQ(came.mads, 0u);  // No answer: it asks again.
  EXPECT_EQ(came.rejected, 0u);
  EXPECT_EQ(cm.b.engine.size(), ListenAt().backlog);
  expect_connects(cm);
}

TEST(Bounds, ManySourcesRequestsGiveWayToNewOnes) {
  Bench cm;
  cm.listen();
  const Came came = flood(cm, true);
  EXPECT_EQ(came.requests, kFlood);
  EXPECT_EQ(came.mads, 0u);  // No answer: they may ask again.
  EXPECT_EQ(came.rejected, kFlood - ListenAt().backlog);
  EXPECT_EQ(cm.b.engine.size(), ListenAt().backlog);
  expect_connects(cm);
}

TEST(Bounds, RequestsTakenOrAnsweredAreNoneOfTheBacklog) {
  Bench cm;
  ASSERT_TRUE(cm.b.engine.listen({.service = wire::service_id_of(PortSpace::tcp, kPort),
                                  .address = SocketAddress::ipv4({0, 0, 0, 0}),
                                  .backlog = 1}));
  std::vector<ConnectionId> asked;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    cm.b.receive(to_b(noisy(1), request(i, noisy(1))), cm.now);
    const auto one = cm.b.only<ConnectRequest>();
    ASSERT_TRUE(one);
    if (i == 1) cm.b.engine.note_taken(one->connection);
    if (i == 2) {
      ASSERT_TRUE(cm.b.engine.accept(one->connection, Bench::yes(), cm.now, cm.b.effects));
    }
  }
  cm.b.effects.clear();
  cm.b.receive(to_b(noisy(1), request(4, noisy(1))), cm.now);
  EXPECT_TRUE(cm.b.effects.empty());
  EXPECT_EQ(cm.b.engine.counters().turned_away, 1u);
}

TEST(Bounds, AcceptedRequestsOfPeersThatFallSilentGiveWay) {
  Bench cm;
  cm.listen();
  std::size_t displaced = 0;
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    cm.b.receive(to_b(noisy(i), request(i, noisy(i))), cm.now);
    displaced += take<Rejected>(cm.b.effects).size();
    const auto asked = cm.b.only<ConnectRequest>();
    ASSERT_TRUE(asked);
    ASSERT_TRUE(cm.b.engine.accept(asked->connection, Bench::yes(), cm.now, cm.b.effects));
    cm.b.effects.clear();
  }
  EXPECT_EQ(cm.b.engine.size(), Settings().half_open_max);
  EXPECT_EQ(displaced, kFlood - Settings().half_open_max);
  expect_connects(cm);
  cm.pass(16 * 9 * kSecond, false);
  EXPECT_EQ(cm.b.engine.size(), 1u);  // A's connection.
}

TEST(Bounds, OneSourceHasAShareOfWhatIsHalfOpen) {
  Bench cm;
  cm.listen();
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    cm.b.receive(to_b(noisy(1), request(i, noisy(1))), cm.now);
    for (const ConnectRequest& asked : take<ConnectRequest>(cm.b.effects)) {
      ASSERT_TRUE(cm.b.engine.accept(asked.connection, Bench::yes(), cm.now, cm.b.effects));
    }
    take<SendMad>(cm.b.effects);
  }
  EXPECT_EQ(cm.b.engine.size(), Settings().half_open_of_source_max);
  expect_connects(cm);
}

TEST(Bounds, RefusalsAreRememberedForTheLatestOnly) {
  Bench cm;
  cm.listen();
  for (std::uint32_t i = 1; i <= kFlood; ++i) {
    cm.b.receive(to_b(noisy(i), request(i, noisy(i))), cm.now);
    const auto asked = cm.b.only<ConnectRequest>();
    ASSERT_TRUE(asked);
    ASSERT_TRUE(
        cm.b.engine.reject(asked->connection, RejectReason::consumer, {}, cm.now, cm.b.effects));
    cm.b.effects.clear();
    if (i == 1'001) {  // The first one again, which is now the newest.
      cm.b.receive(to_b(noisy(1), request(1, noisy(1))), cm.now);
      EXPECT_TRUE(Bench::message<wire::CmRej>(cm.mad_of(cm.b)));
    } else if (i == 2'000) {
      cm.b.receive(to_b(noisy(1), request(1, noisy(1))), cm.now);
      EXPECT_TRUE(Bench::message<wire::CmRej>(cm.mad_of(cm.b)));
      cm.b.receive(to_b(noisy(2), request(2, noisy(2))), cm.now);
      EXPECT_TRUE(cm.b.only<ConnectRequest>());  // It was forgotten, so its user is asked again.
    }
  }
  EXPECT_LE(cm.b.engine.size(), Settings().remembered_max + 1);
  expect_connects(cm);
}

TEST(Bounds, OneThatWasAskedToWaitHearsThatItWaitsInVain) {
  Bench cm;
  ASSERT_TRUE(cm.b.engine.listen({.service = wire::service_id_of(PortSpace::tcp, kPort),
                                  .address = SocketAddress::ipv4({0, 0, 0, 0}),
                                  .backlog = 1}));
  for (int i = 0; i < 2; ++i) cm.b.receive(to_b(noisy(1), request(1, noisy(1))), cm.now);
  EXPECT_TRUE(Bench::message<wire::CmMra>(cm.mad_of(cm.b)));
  cm.b.receive(to_b(noisy(2), request(2, noisy(2))), cm.now);
  const auto rej = Bench::message<wire::CmRej>(cm.mad_of(cm.b));
  ASSERT_TRUE(rej);
  EXPECT_EQ(rej->remote_id, wire::CommunicationId{1});
  EXPECT_TRUE(cm.b.only<Rejected>());
}

wire::CmSidrReq question(std::uint32_t number, const SocketAddress& from) {
  wire::CmSidrReq req{.request_id = wire::CommunicationId{number},
                      .service_id = wire::service_id_of(PortSpace::udp, kPort)};
  put_request(req.private_data, {from.with_port(1), address_b().with_port(kPort)}, {});
  return req;
}

TEST(Bounds, ResolutionsLeaveRoomWhetherAnsweredOrNot) {
  for (const bool answers : {false, true}) {
    Bench cm;
    cm.listen();
    ASSERT_TRUE(cm.b.engine.listen({.service = wire::service_id_of(PortSpace::udp, kPort),
                                    .address = SocketAddress::ipv4({0, 0, 0, 0}),
                                    .datagram = true}));
    for (std::uint32_t i = 1; i <= kFlood; ++i) {
      const SocketAddress from = noisy(i % 2 == 0 ? i : 1);
      cm.b.receive(to_b(from, question(i, from)), cm.now);
      for (const SidrRequest& asked : take<SidrRequest>(cm.b.effects)) {
        if (!answers) continue;
        ASSERT_TRUE(cm.b.engine.answer(asked.resolution, {.qpn = Qpn(3)}, cm.now, cm.b.effects));
      }
      cm.b.effects.clear();
    }
    EXPECT_EQ(cm.b.engine.size(), 1'024u);
    ASSERT_TRUE(cm.a.engine.resolve({.service = wire::service_id_of(PortSpace::udp, kPort),
                                     .path = Bench::to_b().path,
                                     .ends = Bench::to_b().ends},
                                    cm.now, cm.a.effects));
    cm.deliver();
    EXPECT_TRUE(cm.b.only<SidrRequest>());
    expect_connects(cm);
  }
}

}  // namespace
}  // namespace verbatim::cm

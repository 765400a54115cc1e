#include "cm/ib/cm_test_util.h"

namespace verbatim::cm {
namespace {

TEST(Connect, EachSideLearnsOfTheOther) {
  Bench cm;
  cm.listen();
  ConnectParameters parameters = Bench::to_b();
  const auto hello = bytes_of("hello");
  parameters.private_data = hello;
  const auto id = cm.a.engine.connect(parameters, cm.now, cm.a.effects);
  ASSERT_TRUE(id);
  cm.deliver();
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->service, parameters.service);
  EXPECT_EQ(request->ends.source, address_a().with_port(5555));
  EXPECT_EQ(request->ends.destination, address_b().with_port(kPort));
  EXPECT_EQ(request->path.local_gid, gid_of(address_b()));
  EXPECT_EQ(request->path.remote_gid, gid_of(address_a()));
  EXPECT_EQ(request->path.mtu, Mtu::k4096);
  EXPECT_EQ(request->path.flow_label, 0x12345u);
  EXPECT_TRUE(same_ip(address_of(request->path.remote), address_a()));
  EXPECT_EQ(request->peer.qpn, Qpn(0xa1));
  EXPECT_EQ(request->peer.starting_psn, Psn(0xa2a2a2));
  EXPECT_EQ(request->peer.responder_resources, 5);  // Roles are exchanged.
  EXPECT_EQ(request->peer.initiator_depth, 3);
  EXPECT_EQ(request->private_data.size(), kIpRequestPrivateBytes);
  EXPECT_TRUE(begins_with(request->private_data, "hello"));

  AcceptParameters yes = Bench::yes();
  const auto welcome = bytes_of("welcome");
  yes.private_data = welcome;
  ASSERT_TRUE(cm.b.engine.accept(request->connection, yes, cm.now, cm.b.effects));
  cm.deliver();
  const auto response = cm.a.only<ConnectResponse>();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->connection, *id);
  EXPECT_EQ(response->peer.qpn, Qpn(0xb1));
  EXPECT_EQ(response->peer.responder_resources, 2);
  EXPECT_EQ(response->peer.initiator_depth, 4);
  EXPECT_EQ(response->private_data.size(), kReplyPrivateBytes);
  EXPECT_TRUE(begins_with(response->private_data, "welcome"));

  ASSERT_TRUE(cm.a.engine.establish(*id, bytes_of("go"), cm.now, cm.a.effects));
  cm.deliver();
  const auto established = cm.b.only<Established>();
  ASSERT_TRUE(established);
  EXPECT_TRUE(begins_with(established->private_data, "go"));
  EXPECT_EQ(cm.a.engine.deadline(), kNever);
  EXPECT_EQ(cm.b.engine.deadline(), kNever);
}

TEST(Connect, LocalIdsCarryTheSlotAndDoNotRepeat) {
  Bench cm;
  const auto first = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
  cm.a.engine.release(first, cm.now, cm.a.effects);
  const auto second = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
  EXPECT_NE(first, second);
  EXPECT_EQ(raw(first) >> 22, 3u);
  EXPECT_EQ(raw(second) >> 22, 3u);
}

TEST(Connect, XrcTellsTheTargetsNumber) {
  Bench cm;
  cm.listen();
  ConnectParameters parameters = Bench::to_b();
  parameters.transport = CmTransport::xrc;
  ASSERT_TRUE(cm.a.engine.connect(parameters, cm.now, cm.a.effects));
  cm.deliver();
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->transport, CmTransport::xrc);
  ASSERT_TRUE(cm.b.engine.accept(request->connection, Bench::yes(), cm.now, cm.b.effects));
  cm.deliver();
  EXPECT_EQ(cm.a.only<ConnectResponse>()->peer.qpn, Qpn(0xb1));
}

TEST(Connect, NobodyThereIsUnreachableAfterAllRetries) {
  Bench cm;
  ConnectParameters parameters = Bench::to_b();
  parameters.retry = {.response_timeout = 14, .retries = 3};
  const auto id = *cm.a.engine.connect(parameters, cm.now, cm.a.effects);
  int sent = static_cast<int>(take<SendMad>(cm.a.effects).size());
  while (cm.a.engine.deadline() != kNever) {
    cm.now = cm.a.engine.deadline();
    cm.a.engine.on_timeout(cm.now, cm.a.effects);
    for (const SendMad& mad : take<SendMad>(cm.a.effects)) {
      sent += Bench::message<wire::CmReq>(mad).has_value();
    }
  }
  EXPECT_EQ(sent, 4);
  const auto unreachable = cm.a.only<Unreachable>();
  ASSERT_TRUE(unreachable);
  EXPECT_EQ(unreachable->connection, id);
  EXPECT_EQ(cm.a.engine.size(), 0u);
}

TEST(Connect, LostRequestIsRepeated) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  take<SendMad>(cm.a.effects);  // Lost.
  cm.pass(2 * kSecond);
  EXPECT_TRUE(cm.b.only<ConnectRequest>());
}

TEST(Connect, RepeatedRequestIsOneRequestAndAsksForPatience) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = cm.mad_of(cm.a);
  cm.b.receive(*req, cm.now);
  cm.b.receive(*req, cm.now);
  EXPECT_TRUE(cm.b.only<ConnectRequest>());
  const auto mra = cm.mad_of(cm.b);
  ASSERT_TRUE(Bench::message<wire::CmMra>(mra));
  cm.a.receive(*mra, cm.now);
  EXPECT_GT(cm.a.engine.deadline(), cm.now + 60 * kSecond);
}

TEST(Connect, LostReplyIsRepeatedByTheTimerAndForARepeatedRequest) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = cm.mad_of(cm.a);
  cm.b.receive(*req, cm.now);
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(cm.b.engine.accept(request->connection, Bench::yes(), cm.now, cm.b.effects));
  const auto rep = cm.mad_of(cm.b);  // Lost.
  cm.b.receive(*req, cm.now);
  EXPECT_EQ(cm.mad_of(cm.b)->bytes, rep->bytes);  // Lost again.
  cm.now = cm.b.engine.deadline();
  cm.b.engine.on_timeout(cm.now, cm.b.effects);
  EXPECT_EQ(cm.mad_of(cm.b)->bytes, rep->bytes);
  EXPECT_TRUE(cm.b.effects.empty());
}

TEST(Connect, LostRtuComesAgainForARepeatedReply) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  ASSERT_TRUE(cm.a.engine.establish(ids.a, {}, cm.now, cm.a.effects));
  take<SendMad>(cm.a.effects);  // Lost.
  EXPECT_FALSE(cm.b.only<Established>());
  cm.pass(2 * kSecond);
  EXPECT_TRUE(cm.b.only<Established>());
  EXPECT_TRUE(cm.a.effects.empty());
}

TEST(Connect, RtuThatNeverComesEndsBothSides) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  ASSERT_TRUE(cm.a.engine.establish(ids.a, {}, cm.now, cm.a.effects));
  cm.pass(16 * 1'073 * kMillisecond, false);
  cm.pass(2 * kSecond);  // The final REJ is delivered.
  EXPECT_TRUE(cm.b.only<Unreachable>());
  EXPECT_TRUE(cm.a.only<Disconnected>());
  EXPECT_EQ(cm.b.engine.size(), 0u);
}

TEST(Connect, DataBeforeTheRtuEstablishes) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  ASSERT_TRUE(cm.a.engine.establish(ids.a, {}, cm.now, cm.a.effects));
  const auto rtu = cm.mad_of(cm.a);
  ASSERT_TRUE(cm.b.engine.notify_established(ids.b, cm.now, cm.b.effects));
  EXPECT_TRUE(cm.b.only<Established>());
  EXPECT_EQ(cm.b.engine.deadline(), kNever);
  cm.b.receive(*rtu, cm.now);
  ASSERT_TRUE(cm.b.engine.notify_established(ids.b, cm.now, cm.b.effects));
  EXPECT_TRUE(cm.b.effects.empty());  // Only once.
}

TEST(Connect, SlowUserOfTheActiveSideAsksForPatience) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  cm.pass(100 * kSecond);  // B repeats its REP; MRAs answer.
  EXPECT_TRUE(cm.a.effects.empty());
  EXPECT_TRUE(cm.b.effects.empty());
  ASSERT_TRUE(cm.a.engine.establish(ids.a, {}, cm.now, cm.a.effects));
  cm.deliver();
  EXPECT_TRUE(cm.b.only<Established>());
}

TEST(Connect, ReplyToNobodyIsRejected) {
  Bench cm;
  cm.listen();
  const auto id = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
  cm.deliver();
  const auto request = cm.b.only<ConnectRequest>();
  cm.a.engine.release(id, cm.now, cm.a.effects);
  take<SendMad>(cm.a.effects);  // The REJ is lost.
  ASSERT_TRUE(cm.b.engine.accept(request->connection, Bench::yes(), cm.now, cm.b.effects));
  cm.deliver();
  EXPECT_EQ(cm.b.only<Rejected>()->reason, RejectReason::invalid_communication_id);
  EXPECT_EQ(cm.b.engine.size(), 0u);
}

TEST(Connect, WrongUseIsRefusedInWords) {
  Bench cm;
  ConnectParameters parameters = Bench::to_b();
  const std::vector<std::byte> many(57);
  parameters.private_data = many;
  EXPECT_EQ(cm.a.engine.connect(parameters, cm.now, cm.a.effects).error().code, EINVAL);
  parameters.private_data = {};
  parameters.ends.destination = SocketAddress::ipv6({});
  EXPECT_EQ(cm.a.engine.connect(parameters, cm.now, cm.a.effects).error().code, EINVAL);
  EXPECT_TRUE(cm.a.effects.empty());

  const auto id = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
  const auto refused = cm.a.engine.establish(id, {}, cm.now, cm.a.effects);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().text.find("waits for the peer's reply"), std::string::npos);
  EXPECT_FALSE(cm.a.engine.accept(id, {}, cm.now, cm.a.effects));
  EXPECT_FALSE(cm.a.engine.disconnect(id, {}, cm.now, cm.a.effects));
  EXPECT_FALSE(cm.a.engine.reject(id, RejectReason::consumer, {}, cm.now, cm.a.effects));
  EXPECT_FALSE(cm.a.engine.accept(ConnectionId{77}, {}, cm.now, cm.a.effects));
}

TEST(Connect, FullTableIsToldToCallerAndPeer) {
  Bench cm;
  ConnectionManager small({.slot = 9, .node_guid = 9, .connections_max = 1});
  ASSERT_TRUE(small.listen({.service = wire::service_id_of(PortSpace::tcp, kPort),
                            .address = SocketAddress::ipv4({0, 0, 0, 0})}));
  Effects effects;
  ASSERT_TRUE(small.connect(Bench::to_b(), cm.now, effects));
  EXPECT_EQ(small.connect(Bench::to_b(), cm.now, effects).error().code, ENOMEM);
  effects.clear();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = cm.mad_of(cm.a);
  small.on_mad(req->bytes, roce_path(req->source), address_b(), cm.now, effects);
  ASSERT_EQ(effects.size(), 1u);
  cm.a.receive(std::get<SendMad>(effects[0]), cm.now);
  EXPECT_EQ(cm.a.only<Rejected>()->reason, RejectReason::no_resources);
}

TEST(Connect, ToItself) {
  Bench cm;
  ASSERT_TRUE(cm.a.engine.listen(
      {.service = wire::service_id_of(PortSpace::tcp, kPort), .address = address_a()}));
  ConnectParameters parameters = Bench::to_b();
  parameters.path.remote = roce_path(address_a());
  parameters.ends.destination = address_a().with_port(kPort);
  const auto id = *cm.a.engine.connect(parameters, cm.now, cm.a.effects);
  const auto hand_over = [&cm] {
    for (const SendMad& mad : take<SendMad>(cm.a.effects)) cm.a.receive(mad, cm.now);
  };
  hand_over();
  const auto request = cm.a.only<ConnectRequest>();
  ASSERT_TRUE(request);
  ASSERT_TRUE(cm.a.engine.accept(request->connection, Bench::yes(), cm.now, cm.a.effects));
  hand_over();
  ASSERT_TRUE(cm.a.only<ConnectResponse>());
  ASSERT_TRUE(cm.a.engine.establish(id, {}, cm.now, cm.a.effects));
  hand_over();
  EXPECT_TRUE(cm.a.only<Established>());
}

}  // namespace
}  // namespace verbatim::cm

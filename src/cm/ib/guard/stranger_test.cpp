// Messages from an address that is not the peer's, with all other fields guessed right, change
// nothing.
#include "cm/ib/cm_test_util.h"
#include "cm/ib/compose.h"

namespace verbatim::cm {
namespace {

SocketAddress stranger() { return SocketAddress::ipv4({10, 0, 0, 66}); }

wire::CommunicationId wire_id(ConnectionId id) { return static_cast<wire::CommunicationId>(id); }

/// Returns a MAD to `to` from the stranger.
template <typename Message>
SendMad forged(const SocketAddress& to, const Message& message) {
  SendMad mad{.source = stranger(), .destination = roce_path(to)};
  encode(wire::CmMad{.transaction = 9, .message = message}, mad.bytes);
  return mad;
}

/// Returns the number of the side's effects, without MADs.
std::size_t told(Side& side) {
  take<SendMad>(side.effects);
  return side.effects.size();
}

TEST(Stranger, RequestWithThePeersGuidAndQueuePairEndsNothing) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  SendMad req = *cm.mad_of(cm.a);
  req.source = stranger();
  cm.b.receive(req, cm.now);
  EXPECT_FALSE(cm.b.only<Disconnected>());
  for (const SendMad& mad : take<SendMad>(cm.b.effects)) {
    EXPECT_FALSE(Bench::message<wire::CmDreq>(mad));
  }
  EXPECT_TRUE(cm.b.only<ConnectRequest>());  // A separate connection.
  ASSERT_TRUE(cm.b.engine.disconnect(ids.b, {}, cm.now, cm.b.effects));
  // The established one was disconnected.
  EXPECT_TRUE(Bench::message<wire::CmDreq>(cm.mad_of(cm.b)));
}

TEST(Stranger, RequestWithThePeersGuidAndIdIsNoRepetition) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  SendMad req = *cm.mad_of(cm.a);
  SendMad copy = req;
  copy.source = stranger();
  cm.b.receive(copy, cm.now);
  EXPECT_TRUE(cm.b.only<ConnectRequest>());
  cm.b.receive(req, cm.now);  // The stranger came first, but does not take the peer's place.
  EXPECT_TRUE(cm.b.only<ConnectRequest>());
}

TEST(Stranger, CannotTakeAQueuePairsPlaceBeforeItsOwnerReplies) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.listen(
      {.service = wire::service_id_of(PortSpace::tcp, kPort), .address = address_a()}));
  // The stranger connects to A with the GUID and the queue pair number that B will reply with.
  wire::CmReq request{.local_id = wire::CommunicationId{77},
                      .service_id = wire::service_id_of(PortSpace::tcp, kPort),
                      .local_ca_guid = kGuidB,
                      .local_qpn = Qpn(0xb1),
                      .path_mtu = raw(Mtu::k1024)};
  put_request(request.private_data, {stranger(), address_a().with_port(kPort)}, {});
  cm.a.receive(forged(address_a(), request), cm.now);
  ASSERT_TRUE(cm.a.only<ConnectRequest>());
  cm.connected();
}

TEST(Stranger, EndsNoConnectionThatStands) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  const auto local = wire_id(ids.b);
  const auto remote = wire_id(ids.a);
  cm.b.receive(forged(address_b(), wire::CmDreq{.local_id = remote, .remote_id = local}), cm.now);
  cm.b.receive(
      forged(address_b(),
             wire::CmRej{.local_id = remote, .remote_id = local, .reason = RejectReason::consumer}),
      cm.now);
  EXPECT_EQ(told(cm.b), 0u);
  cm.b.receive(forged(address_b(), wire::CmLap{.local_id = remote, .remote_id = local}), cm.now);
  EXPECT_TRUE(cm.b.effects.empty());
  ASSERT_TRUE(cm.b.engine.disconnect(ids.b, {}, cm.now, cm.b.effects));
  take<SendMad>(cm.b.effects);
  cm.b.receive(forged(address_b(), wire::CmDrep{.local_id = remote, .remote_id = local}), cm.now);
  EXPECT_TRUE(cm.b.effects.empty());
}

TEST(Stranger, NeitherAnswersNorRefusesNorDelaysARequest) {
  Bench cm;
  const auto local = wire_id(*cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  take<SendMad>(cm.a.effects);
  const TimeNs deadline = cm.a.engine.deadline();
  const wire::CommunicationId own{77};
  cm.a.receive(forged(address_a(), wire::CmRep{.local_id = own, .remote_id = local}), cm.now);
  cm.a.receive(
      forged(address_a(),
             wire::CmRej{.local_id = own, .remote_id = local, .reason = RejectReason::consumer}),
      cm.now);
  cm.a.receive(forged(address_a(), wire::CmMra{.local_id = own,
                                               .remote_id = local,
                                               .acknowledged = wire::CmAbout::req,
                                               .service_timeout = 24}),
               cm.now);
  cm.a.receive(forged(address_a(), wire::CmDreq{.local_id = own, .remote_id = local}), cm.now);
  EXPECT_EQ(told(cm.a), 0u);
  EXPECT_EQ(cm.a.engine.deadline(), deadline);
  EXPECT_EQ(cm.a.engine.size(), 1u);
}

TEST(Stranger, NeitherEstablishesNorGivesUpARequestOfThePeers) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  cm.b.receive(
      forged(address_b(), wire::CmRtu{.local_id = wire_id(ids.a), .remote_id = wire_id(ids.b)}),
      cm.now);
  // A REJ for a timed-out REQ has no id of ours, but the peer's id and GUID.
  wire::CmRej rej{
      .local_id = wire_id(ids.a), .rejected = wire::CmAbout::req, .reason = RejectReason::timeout};
  rej.info_length = sizeof(std::uint64_t);
  store_be(rej.info.data(), kGuidA);
  cm.b.receive(forged(address_b(), rej), cm.now);
  EXPECT_EQ(told(cm.b), 0u);
  EXPECT_EQ(cm.b.engine.size(), 1u);
}

TEST(Stranger, RejectionsOfNoConnectionAreCounted) {
  Bench cm;
  wire::CmRej rej{.local_id = wire::CommunicationId{77},
                  .rejected = wire::CmAbout::req,
                  .reason = RejectReason::consumer};
  cm.b.receive(forged(address_b(), rej), cm.now);  // Without an id of ours.
  EXPECT_EQ(cm.b.engine.counters().unknown, 1u);
  rej.reason = RejectReason::timeout;
  rej.info_length = sizeof(std::uint64_t);
  cm.b.receive(forged(address_b(), rej), cm.now);  // Without a GUID and id that we know.
  EXPECT_EQ(cm.b.engine.counters().unknown, 2u);
}

TEST(Stranger, ResolvesNoService) {
  Bench cm;
  const auto asked = cm.a.engine.resolve({.service = wire::service_id_of(PortSpace::udp, kPort),
                                          .path = Bench::to_b().path,
                                          .ends = Bench::to_b().ends},
                                         cm.now, cm.a.effects);
  ASSERT_TRUE(asked);
  cm.a.receive(forged(address_a(), wire::CmSidrRep{.request_id = wire_id(*asked),
                                                   .status = SidrStatus::found,
                                                   .qpn = Qpn(0x666)}),
               cm.now);
  EXPECT_EQ(told(cm.a), 0u);
  EXPECT_EQ(cm.a.engine.size(), 1u);
}

}  // namespace
}  // namespace verbatim::cm

#include "cm/ib/cm_test_util.h"
#include "cm/ib/routing.h"

namespace verbatim::cm {
namespace {

constexpr ServiceId kService = wire::service_id_of(PortSpace::udp, kPort);

ResolveParameters to_b() {
  ResolveParameters parameters;
  parameters.service = kService;
  parameters.path = Bench::to_b().path;
  parameters.ends = Bench::to_b().ends;
  return parameters;
}
void listen(Bench& cm) {
  ASSERT_TRUE(cm.b.engine.listen(
      {.service = kService, .address = SocketAddress::ipv4({0, 0, 0, 0}), .datagram = true}));
}

TEST(Resolve, AnswerTellsQueuePairAndKey) {
  Bench cm;
  listen(cm);
  ResolveParameters parameters = to_b();
  const auto question = bytes_of("who");
  parameters.private_data = question;
  const auto id = *cm.a.engine.resolve(parameters, cm.now, cm.a.effects);
  cm.deliver();
  const auto request = cm.b.only<SidrRequest>();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->ends.source, address_a().with_port(5555));
  EXPECT_EQ(request->private_data.size(), kIpResolvePrivateBytes);
  EXPECT_TRUE(begins_with(request->private_data, "who"));
  ASSERT_TRUE(cm.b.engine.answer(
      request->resolution,
      {.qpn = Qpn(0x77), .qkey = QKey{0x1234567}, .private_data = bytes_of("me")}, cm.now,
      cm.b.effects));
  cm.deliver();
  const auto response = cm.a.only<SidrResponse>();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->resolution, id);
  EXPECT_EQ(response->status, SidrStatus::found);
  EXPECT_EQ(response->qpn, Qpn(0x77));
  EXPECT_EQ(response->qkey, QKey{0x1234567});
  EXPECT_TRUE(begins_with(response->private_data, "me"));
  EXPECT_EQ(cm.a.engine.size(), 0u);
  cm.pass(10 * kSecond);
  EXPECT_EQ(cm.b.engine.size(), 0u);
}

TEST(Resolve, LostAnswerIsRepeated) {
  Bench cm;
  listen(cm);
  ASSERT_TRUE(cm.a.engine.resolve(to_b(), cm.now, cm.a.effects));
  cm.deliver();
  const auto request = cm.b.only<SidrRequest>();
  ASSERT_TRUE(cm.b.engine.answer(request->resolution, {.qpn = Qpn(7)}, cm.now, cm.b.effects));
  take<SendMad>(cm.b.effects);  // Lost.
  cm.pass(2 * kSecond);
  EXPECT_TRUE(cm.a.only<SidrResponse>());
  EXPECT_FALSE(cm.b.only<SidrRequest>());
}

TEST(Resolve, NoListenerIsNotSupported) {
  Bench cm;
  cm.listen();  // A service of another kind.
  ASSERT_TRUE(cm.a.engine.resolve(to_b(), cm.now, cm.a.effects));
  cm.deliver();
  EXPECT_EQ(cm.a.only<SidrResponse>()->status, SidrStatus::service_not_supported);
}

TEST(Resolve, NobodyThereIsUnreachable) {
  Bench cm;
  ASSERT_TRUE(cm.a.engine.resolve(to_b(), cm.now, cm.a.effects));
  cm.pass(30 * kSecond, false);
  EXPECT_TRUE(cm.a.only<Unreachable>());
  EXPECT_EQ(cm.a.engine.size(), 0u);
}

TEST(Resolve, ReleasedRequestIsRejected) {
  Bench cm;
  listen(cm);
  ASSERT_TRUE(cm.a.engine.resolve(to_b(), cm.now, cm.a.effects));
  cm.deliver();
  cm.b.engine.release(cm.b.only<SidrRequest>()->resolution, cm.now, cm.b.effects);
  cm.deliver();
  EXPECT_EQ(cm.a.only<SidrResponse>()->status, SidrStatus::rejected);
}

TEST(Listeners, AnAddressIsPreferredToAWildcard) {
  Listeners listeners;
  const ServiceId tcp = wire::service_id_of(PortSpace::tcp, 1);
  const auto both =
      *listeners.add({.service = tcp, .address = SocketAddress::ipv6({}), .both_families = true});
  const Wanted wanted{.service = tcp, .address = address_b()};
  EXPECT_EQ(listeners.find(wanted), both);
  const auto any = *listeners.add({.service = tcp, .address = SocketAddress::ipv4({0, 0, 0, 0})});
  EXPECT_EQ(listeners.find(wanted), any);
  const auto exact = *listeners.add({.service = tcp, .address = address_b()});
  EXPECT_EQ(listeners.find(wanted), exact);
  EXPECT_EQ(listeners.find({.service = tcp, .address = address_a()}), any);
  EXPECT_EQ(listeners.find({.service = tcp, .address = SocketAddress::ipv6({1})}), both);
  EXPECT_EQ(listeners.find({.service = tcp}), std::nullopt);  // No IP header.
  EXPECT_EQ(listeners.find({.service = ServiceId{5}, .address = address_b()}), std::nullopt);
  EXPECT_EQ(listeners.add({.service = tcp, .address = address_b()}).error().code, EADDRINUSE);
  listeners.remove(exact);
  EXPECT_EQ(listeners.find(wanted), any);
}

TEST(Listeners, ServicesWithoutIpGoByMaskAndGid) {
  Listeners listeners;
  const auto masked = *listeners.add({.service = ServiceId{0x1200}, .service_mask = 0xff00});
  const auto exact = *listeners.add({.service = ServiceId{0x1234}, .gid = gid_of(address_b())});
  EXPECT_EQ(listeners.find({.service = ServiceId{0x1299}}), masked);
  EXPECT_EQ(listeners.find({.service = ServiceId{0x1234}, .gid = gid_of(address_b())}), exact);
  EXPECT_EQ(listeners.find({.service = ServiceId{0x1234}, .gid = gid_of(address_a())}), masked);
  EXPECT_EQ(listeners.find({.service = ServiceId{0x1299}, .address = address_b()}), std::nullopt);
}

TEST(Routing, RequestsGoByServiceAnswersBySlot) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = cm.mad_of(cm.a);
  const auto route = route_of(req->bytes);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->slot, std::nullopt);
  EXPECT_EQ(route->service, wire::service_id_of(PortSpace::tcp, kPort));
  EXPECT_EQ(route->ends.destination, address_b().with_port(kPort));
  cm.b.receive(*req, cm.now);
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(cm.b.engine.accept(request->connection, Bench::yes(), cm.now, cm.b.effects));
  EXPECT_EQ(route_of(cm.mad_of(cm.b)->bytes)->slot, 3);
  EXPECT_FALSE(route_of(bytes_of("no MAD")));
}

TEST(Routing, NobodysRequestIsRefused) {
  Bench cm;
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = cm.mad_of(cm.a);
  const auto rej = answer_unmatched(req->bytes, roce_path(req->source), address_b());
  ASSERT_TRUE(rej);
  cm.a.receive(*rej, cm.now);
  EXPECT_EQ(cm.a.only<Rejected>()->reason, RejectReason::invalid_service_id);
  EXPECT_EQ(answer_unmatched(rej->bytes, roce_path(address_b()), address_a()), std::nullopt);
}

}  // namespace
}  // namespace verbatim::cm

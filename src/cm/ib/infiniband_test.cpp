// Connections over InfiniBand: the REQ names the path by LIDs, and answers take it back.
#include "cm/ib/cm_test_util.h"

namespace verbatim::cm {
namespace {

constexpr Lid kLidA{4}, kLidB{9};
constexpr std::uint8_t kServiceLevel = 3;
constexpr std::uint8_t kRate = 16;  // 100 Gb/s.

InfinibandPath way(Lid from, Lid to) { return {.dlid = to, .slid = from, .grh = std::nullopt}; }
/// The path as the subnet administrator's record has it.
InfinibandPath resolved(Lid from, Lid to) {
  InfinibandPath path = way(from, to);
  path.service_level = kServiceLevel;
  path.static_rate = kRate;
  return path;
}

ConnectParameters to_b() {
  ConnectParameters parameters = Bench::to_b();
  parameters.path.remote = resolved(kLidA, kLidB);
  parameters.path.service_level = kServiceLevel;
  parameters.path.packet_rate = kRate;
  parameters.path.hop_limit = 0;
  parameters.path.ack_timeout = 19;
  return parameters;
}

struct InfinibandConnect : testing::Test {
  /// Delivers A's MADs. `sender`: the way back, as the LRH of their packets gives it.
  void to_b_from(const verbatim::Path& sender) {
    for (const SendMad& mad : take<SendMad>(cm.a.effects)) {
      cm.b.engine.on_mad(mad.bytes, sender, address_b(), cm.now, cm.b.effects);
    }
  }
  void deliver_to_b() { to_b_from(way(kLidB, kLidA)); }
  void deliver_to_a() {
    for (const SendMad& mad : take<SendMad>(cm.b.effects)) {
      cm.a.engine.on_mad(mad.bytes, way(kLidA, kLidB), address_a(), cm.now, cm.a.effects);
    }
  }
  /// Returns the reason with which B rejects A's REQ.
  std::optional<RejectReason> answer_to(const ConnectParameters& parameters,
                                        const verbatim::Path& sender) {
    EXPECT_TRUE(cm.a.engine.connect(parameters, cm.now, cm.a.effects));
    to_b_from(sender);
    const auto rej = Bench::message<wire::CmRej>(cm.mad_of(cm.b));
    return rej ? std::optional(rej->reason) : std::nullopt;
  }

  Bench cm;
};

TEST_F(InfinibandConnect, RequestNamesLidsAndBothSidesHaveThePath) {
  cm.listen();
  const auto id = *cm.a.engine.connect(to_b(), cm.now, cm.a.effects);
  ASSERT_EQ(cm.a.effects.size(), 1u);
  const SendMad request = std::get<SendMad>(cm.a.effects[0]);
  EXPECT_EQ(request.destination, verbatim::Path(resolved(kLidA, kLidB)));
  const auto req = Bench::message<wire::CmReq>(request);
  ASSERT_TRUE(req);
  EXPECT_EQ(req->primary.local_lid, raw(kLidA));
  EXPECT_EQ(req->primary.remote_lid, raw(kLidB));
  EXPECT_EQ(req->primary.service_level, kServiceLevel);
  EXPECT_EQ(req->primary.local_ack_timeout, 19);
  EXPECT_TRUE(req->primary.subnet_local);

  deliver_to_b();
  const auto told = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->path.remote, verbatim::Path(resolved(kLidB, kLidA)));
  EXPECT_EQ(told->path.remote_gid, gid_of(address_a()));
  EXPECT_EQ(told->path.ack_timeout, 19);
  ASSERT_TRUE(cm.b.engine.accept(told->connection, Bench::yes(), cm.now, cm.b.effects));
  EXPECT_EQ(std::get<SendMad>(cm.b.effects[0]).destination, told->path.remote);
  deliver_to_a();
  ASSERT_TRUE(cm.a.only<ConnectResponse>());
  ASSERT_TRUE(cm.a.engine.establish(id, {}, cm.now, cm.a.effects));
  deliver_to_b();
  EXPECT_TRUE(cm.b.only<Established>());
}

TEST_F(InfinibandConnect, AnswersLeaveByThePortOfTheRequest) {
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(to_b(), cm.now, cm.a.effects));
  InfinibandPath sender = way(kLidB, kLidA);
  sender.port = 2;
  to_b_from(sender);
  const auto told = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(told);
  EXPECT_EQ(std::get<InfinibandPath>(told->path.remote).port, 2);
  ASSERT_TRUE(cm.b.engine.accept(told->connection, Bench::yes(), cm.now, cm.b.effects));
  EXPECT_EQ(std::get<InfinibandPath>(std::get<SendMad>(cm.b.effects[0]).destination).port, 2);
}

TEST_F(InfinibandConnect, RequestThatNamesAnotherSenderIsRefused) {
  cm.listen();
  EXPECT_EQ(answer_to(to_b(), way(kLidB, Lid{5})), RejectReason::primary_lid);
}

TEST_F(InfinibandConnect, RequestOfAnotherSubnetWithoutAGrhIsRefused) {
  cm.listen();
  ConnectParameters parameters = to_b();
  parameters.path.hop_limit = 64;
  EXPECT_EQ(answer_to(parameters, way(kLidB, kLidA)), RejectReason::primary_gid);
}

/// A, in another subnet, sends to B by a router, whose LIDs in the two subnets are these.
constexpr Lid kRouterAtA{6}, kRouterAtB{7};

GlobalRoute route(const SocketAddress& from, const SocketAddress& to) {
  return {.source = gid_of(from), .destination = gid_of(to), .hop_limit = 255};
}
ConnectParameters to_b_by_router() {
  ConnectParameters parameters = to_b();
  parameters.path.local_gid = gid_of(address_a());
  parameters.path.remote_gid = gid_of(address_b());
  parameters.path.flow_label = 0;
  parameters.path.hop_limit = 255;
  parameters.path.remote =
      InfinibandPath{.dlid = kRouterAtA, .slid = kLidA, .grh = route(address_a(), address_b())};
  return parameters;
}
/// As the REQ's packet comes to B.
InfinibandPath way_back() {
  return {.dlid = kRouterAtB,
          .slid = kLidB,
          .service_level = 1,
          .grh = route(address_b(), address_a())};
}

TEST_F(InfinibandConnect, RequestThroughARouterIsAnsweredByIt) {
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(to_b_by_router(), cm.now, cm.a.effects));
  const auto req = Bench::message<wire::CmReq>(std::get<SendMad>(cm.a.effects[0]));
  ASSERT_TRUE(req);
  EXPECT_FALSE(req->primary.subnet_local);
  EXPECT_EQ(req->primary.local_lid, 0xffff);
  EXPECT_EQ(req->primary.remote_lid, 0xffff);
  to_b_from(way_back());
  const auto told = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(told);
  InfinibandPath back = way_back();
  back.static_rate = kRate;
  EXPECT_EQ(told->path.remote, verbatim::Path(back));
  EXPECT_EQ(told->path.service_level, 1);
  ASSERT_TRUE(cm.b.engine.accept(told->connection, Bench::yes(), cm.now, cm.b.effects));
  EXPECT_EQ(std::get<SendMad>(cm.b.effects[0]).destination, verbatim::Path(back));
}

TEST_F(InfinibandConnect, RequestThroughARouterOfAnotherSenderIsRefused) {
  cm.listen();
  InfinibandPath sender = way_back();
  sender.grh->destination.bytes[15] ^= 1;
  EXPECT_EQ(answer_to(to_b_by_router(), sender), RejectReason::primary_gid);
}

TEST_F(InfinibandConnect, OtherLidsEndNoConnection) {
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(to_b(), cm.now, cm.a.effects));
  deliver_to_b();
  const auto told = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(cm.b.engine.accept(told->connection, Bench::yes(), cm.now, cm.b.effects));
  deliver_to_a();
  const auto response = cm.a.only<ConnectResponse>();
  ASSERT_TRUE(response);
  ASSERT_TRUE(cm.a.engine.establish(response->connection, {}, cm.now, cm.a.effects));
  to_b_from(way(kLidB, Lid{5}));  // The RTU of a stranger.
  EXPECT_FALSE(cm.b.only<Established>());
  cm.pass(10 * kSecond, false);
}

TEST_F(InfinibandConnect, ResolvedServiceIsReachedByTheSameWay) {
  const auto service = wire::service_id_of(PortSpace::udp, kPort);
  ASSERT_TRUE(cm.b.engine.listen(
      {.service = service, .address = SocketAddress::ipv4({0, 0, 0, 0}), .datagram = true}));
  ResolveParameters parameters;
  parameters.service = service;
  parameters.path = to_b().path;
  parameters.ends = Bench::to_b().ends;
  ASSERT_TRUE(cm.a.engine.resolve(parameters, cm.now, cm.a.effects));
  deliver_to_b();
  const auto asked = cm.b.only<SidrRequest>();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->path.remote, verbatim::Path(way(kLidB, kLidA)));
  EXPECT_TRUE(asked->path.local_gid.is_zero());  // A SIDR_REQ names no GIDs.
  EXPECT_TRUE(asked->path.remote_gid.is_zero());
}

}  // namespace
}  // namespace verbatim::cm

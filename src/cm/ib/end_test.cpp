// How connections end: refused, stale, disconnected, released.
#include "cm/ib/cm_test_util.h"

namespace verbatim::cm {
namespace {

TEST(Reject, A11_NoListenerIsInvalidServiceId) {
  Bench cm;
  const auto id = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
  cm.deliver();
  const auto rejected = cm.a.only<Rejected>();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->connection, id);
  EXPECT_EQ(rejected->reason, RejectReason::invalid_service_id);
  EXPECT_EQ(cm.a.engine.size() + cm.b.engine.size(), 0u);
}

TEST(Reject, ConsumersReasonAndPrivateDataArrive) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  cm.deliver();
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(cm.b.engine.reject(request->connection, RejectReason::consumer, bytes_of("full"),
                                 cm.now, cm.b.effects));
  cm.deliver();
  const auto rejected = cm.a.only<Rejected>();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->reason, RejectReason::consumer);
  EXPECT_EQ(rejected->private_data.size(), kRejectPrivateBytes);
  EXPECT_TRUE(begins_with(rejected->private_data, "full"));
  EXPECT_TRUE(cm.b.effects.empty());
  cm.pass(10 * kSecond);
  EXPECT_EQ(cm.b.engine.size(), 0u);
}

TEST(Reject, LostRejectionIsRepeatedForARepeatedRequest) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  cm.deliver();
  const auto request = cm.b.only<ConnectRequest>();
  ASSERT_TRUE(
      cm.b.engine.reject(request->connection, RejectReason::consumer, {}, cm.now, cm.b.effects));
  take<SendMad>(cm.b.effects);  // Lost.
  cm.pass(1'100 * kMillisecond);
  EXPECT_TRUE(cm.a.only<Rejected>());
  EXPECT_FALSE(cm.b.only<ConnectRequest>());  // The user is not asked again.
}

TEST(Reject, ActiveSideMayRejectTheReply) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  ASSERT_TRUE(cm.a.engine.reject(ids.a, RejectReason::consumer, {}, cm.now, cm.a.effects));
  take<SendMad>(cm.a.effects);  // Lost; B's REP comes again.
  cm.pass(1'100 * kMillisecond);
  EXPECT_EQ(cm.b.only<Rejected>()->reason, RejectReason::consumer);
}

TEST(Reject, OddRequestsAreRefusedBeforeAnybodyIsAsked) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto mad = cm.mad_of(cm.a);
  const auto reason_for = [&](auto change) {
    auto decoded = *wire::decode_cm(mad->bytes);
    change(std::get<wire::CmReq>(decoded.message));
    SendMad changed = *mad;
    encode(decoded, changed.bytes);
    cm.b.receive(changed, cm.now);
    return Bench::message<wire::CmRej>(cm.mad_of(cm.b))->reason;
  };
  EXPECT_EQ(reason_for([](wire::CmReq& req) { req.transport = CmTransport::rd; }),
            RejectReason::invalid_transport);
  EXPECT_EQ(reason_for([](wire::CmReq& req) { req.path_mtu = 6; }), RejectReason::invalid_path_mtu);
  EXPECT_EQ(cm.b.engine.size(), 0u);
}

TEST(Disconnect, BothSidesLearnOnceAndLeaveTimeWait) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  ASSERT_TRUE(cm.a.engine.disconnect(ids.a, bytes_of("bye"), cm.now, cm.a.effects));
  cm.deliver();
  EXPECT_TRUE(cm.a.only<Disconnected>());
  const auto disconnected = cm.b.only<Disconnected>();
  ASSERT_TRUE(disconnected);
  EXPECT_TRUE(begins_with(disconnected->private_data, "bye"));
  ASSERT_TRUE(cm.b.engine.disconnect(ids.b, {}, cm.now, cm.b.effects));  // As librdmacm's users do.
  EXPECT_TRUE(cm.b.effects.empty());
  cm.pass(kSecond);
  EXPECT_TRUE(cm.a.only<TimeWaitExit>());
  EXPECT_TRUE(cm.b.only<TimeWaitExit>());
  EXPECT_EQ(cm.a.engine.size() + cm.b.engine.size(), 0u);
  EXPECT_FALSE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
}

TEST(Disconnect, BothAtOnce) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
  ASSERT_TRUE(cm.b.engine.disconnect(ids.b, {}, cm.now, cm.b.effects));
  cm.deliver();
  EXPECT_TRUE(cm.a.only<Disconnected>());
  EXPECT_TRUE(cm.b.only<Disconnected>());
  cm.pass(kSecond);
  EXPECT_EQ(cm.a.engine.size() + cm.b.engine.size(), 0u);
}

TEST(Disconnect, LostReplyIsRepeatedForARepeatedRequest) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
  cm.b.receive(*cm.mad_of(cm.a), cm.now);
  take<SendMad>(cm.b.effects);  // The DREP is lost.
  EXPECT_TRUE(cm.b.only<Disconnected>());
  cm.pass(2 * kSecond);  // B has left TimeWait and does not know the connection any more.
  EXPECT_TRUE(cm.a.only<Disconnected>());
  EXPECT_FALSE(cm.b.only<Disconnected>());
}

TEST(Disconnect, C12_9_8_6_UnknownConnectionIsAnsweredByDrep) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  Side reborn(address_b(), kGuidB, 5);  // B's program was killed and started again.
  ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
  reborn.receive(*cm.mad_of(cm.a), cm.now);
  const auto drep = reborn.only<SendMad>();
  ASSERT_TRUE(Bench::message<wire::CmDrep>(drep));
  cm.a.receive(*drep, cm.now);
  EXPECT_TRUE(cm.a.only<Disconnected>());
}

TEST(Disconnect, PeerThatIsGoneCostsTheRetriesOnly) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
  cm.pass(30 * kSecond, false);
  EXPECT_TRUE(cm.a.only<Disconnected>());
  EXPECT_TRUE(cm.a.only<TimeWaitExit>());
}

TEST(Disconnect, BeforeTheRtuCame) {
  Bench cm;
  cm.listen();
  const auto ids = cm.half_connected();
  ASSERT_TRUE(cm.b.engine.disconnect(ids.b, {}, cm.now, cm.b.effects));
  cm.deliver();
  EXPECT_TRUE(cm.b.only<Disconnected>());
  EXPECT_TRUE(cm.a.only<Disconnected>());
  EXPECT_FALSE(cm.a.engine.establish(ids.a, {}, cm.now, cm.a.effects));
}

TEST(Stale, C12_9_8_3_1_NewRequestOfAKnownQueuePairEndsTheOldConnection) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  Side reborn(address_a(), kGuidA, 4);  // A's program was killed; its slot is reused.
  ASSERT_TRUE(reborn.engine.connect(Bench::to_b(), cm.now, reborn.effects));
  const auto req = reborn.only<SendMad>();
  cm.b.receive(*req, cm.now);
  const auto answers = take<SendMad>(cm.b.effects);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(Bench::message<wire::CmDreq>(answers[0]));
  const auto rej = Bench::message<wire::CmRej>(answers[1]);
  ASSERT_TRUE(rej);
  EXPECT_EQ(rej->reason, RejectReason::stale_connection);

  // The new A repeats its REQ by itself, and nothing stops it now.
  reborn.receive(answers[1], cm.now);
  EXPECT_TRUE(reborn.effects.empty());
  reborn.engine.on_timeout(reborn.engine.deadline(), reborn.effects);
  cm.b.receive(*reborn.only<SendMad>(), cm.now);
  EXPECT_TRUE(cm.b.only<ConnectRequest>());
  static_cast<void>(ids);
}

TEST(Stale, ARequestThatNobodyAnsweredYetGivesWay) {
  Bench cm;
  cm.listen();
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  cm.deliver();
  const auto old = cm.b.only<ConnectRequest>();
  Side reborn(address_a(), kGuidA, 4);
  ASSERT_TRUE(reborn.engine.connect(Bench::to_b(), cm.now, reborn.effects));
  cm.b.receive(*reborn.only<SendMad>(), cm.now);
  const auto rejected = cm.b.only<Rejected>();
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->connection, old->connection);
}

TEST(Stale, RefusedTwiceIsTold) {
  Bench cm;
  ASSERT_TRUE(cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects));
  const auto req = Bench::message<wire::CmReq>(cm.mad_of(cm.a));
  const ReplyPath reply_path{roce_path(address_a()), address_b()};
  const SendMad rej = refuse_request(reply_path, *req, RejectReason::stale_connection);
  cm.a.receive(rej, cm.now);
  EXPECT_FALSE(cm.a.only<Rejected>());
  cm.a.receive(rej, cm.now);
  EXPECT_EQ(cm.a.only<Rejected>()->reason, RejectReason::stale_connection);
}

TEST(Release, InEveryStateEndsWithoutAnotherEffect) {
  for (int state = 0; state < 6; ++state) {
    Bench cm;
    cm.listen();
    Bench::Ids ids;
    if (state == 0) {
      ids.a = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
    } else if (state == 1) {
      ids.a = *cm.a.engine.connect(Bench::to_b(), cm.now, cm.a.effects);
      cm.deliver();
      ids.b = cm.b.only<ConnectRequest>()->connection;
    } else if (state == 2) {
      ids = cm.half_connected();
    } else {
      ids = cm.connected();
      if (state == 4) {
        ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
      } else if (state == 5) {
        ASSERT_TRUE(cm.a.engine.disconnect(ids.a, {}, cm.now, cm.a.effects));
        cm.deliver();
        cm.a.effects.clear();
        cm.b.effects.clear();
      }
    }
    cm.a.engine.release(ids.a, cm.now, cm.a.effects);
    cm.b.engine.release(ids.b, cm.now, cm.b.effects);
    cm.deliver();
    cm.pass(30 * kSecond);
    EXPECT_TRUE(cm.a.effects.empty()) << state;
    if (state != 0) {
      EXPECT_TRUE(cm.b.effects.empty()) << state;
      EXPECT_EQ(cm.b.engine.size(), 0u) << state;
    }
    EXPECT_EQ(cm.a.engine.size(), 0u) << state;
  }
}

TEST(AlternatePath, LapIsRefusedByApr) {
  Bench cm;
  cm.listen();
  const auto ids = cm.connected();
  SendMad lap{.source = address_a(), .destination = roce_path(address_b())};
  encode(wire::CmMad{9, wire::CmLap{.local_id = static_cast<wire::CommunicationId>(ids.a),
                                    .remote_id = static_cast<wire::CommunicationId>(ids.b)}},
         lap.bytes);
  cm.b.receive(lap, cm.now);
  const auto apr = Bench::message<wire::CmApr>(cm.mad_of(cm.b));
  ASSERT_TRUE(apr);
  EXPECT_EQ(apr->status, wire::AlternatePathStatus::not_supported);
  EXPECT_EQ(apr->remote_id, static_cast<wire::CommunicationId>(ids.a));
}

}  // namespace
}  // namespace verbatim::cm

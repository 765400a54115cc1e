#include <cerrno>

#include "test_util.h"

/// Queue pairs: what creation and each transition accept and refuse, and what may be posted.
namespace verbs_test {
namespace {

TEST(QueuePair, CapacitiesComeBackAtLeastAsAskedFor) {
  const OpenDevice host;
  const Endpoint end(host, {.sends = 100, .receives = 33, .segments = 5, .inline_bytes = 200});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(end.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  EXPECT_GE(initial.cap.max_send_wr, 100u);
  EXPECT_GE(initial.cap.max_recv_wr, 33u);
  EXPECT_GE(initial.cap.max_send_sge, 5u);
  EXPECT_GE(initial.cap.max_inline_data, 200u);
  EXPECT_EQ(initial.send_cq, end.cq());
  EXPECT_EQ(initial.qp_type, IBV_QPT_RC);
  EXPECT_EQ(std::memcmp(&initial.cap, &attributes.cap, sizeof initial.cap), 0);
}

TEST(QueuePair, HasRoomForAFewInlineBytesUnasked) {
  const Pair pair({.inline_bytes = 0});
  ASSERT_EQ(pair.b.receive(1, 0, 16), 0);
  fill(pair.a.memory().first(16), 7);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 16,
                        [](ibv_send_wr& request) { request.send_flags |= IBV_SEND_INLINE; }),
            0);
  ASSERT_OK(pair.b.wait());
  EXPECT_EQ(difference(pair.b.memory().first(16), 7), std::nullopt);
}

TEST(QueuePair, BeyondTheLimitsIsEinval) {
  const OpenDevice host;
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 4, nullptr, nullptr, 0));
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(host.context(), &device), 0);
  const auto refused = [&](const std::function<void(ibv_qp_init_attr&)>& change) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    change(wanted);
    errno = 0;
    ibv_qp* const qp = ibv_create_qp(host.pd(), &wanted);
    if (qp != nullptr) ibv_destroy_qp(qp);
    return qp == nullptr && errno == EINVAL;
  };
  EXPECT_FALSE(refused([](ibv_qp_init_attr&) {}));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& q) {
    q.cap.max_send_wr = static_cast<std::uint32_t>(device.max_qp_wr) + 1;
  }));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& q) {
    q.cap.max_recv_sge = static_cast<std::uint32_t>(device.max_sge) + 1;
  }));
  EXPECT_TRUE(refused([](ibv_qp_init_attr& q) { q.cap.max_inline_data = 1 << 20; }));
  EXPECT_TRUE(refused([](ibv_qp_init_attr& q) { q.recv_cq = nullptr; }));
  // The kernel's types of queue pairs 0 and 1.
  for (const int management : {0, 1}) {
    EXPECT_TRUE(refused(
        [management](ibv_qp_init_attr& q) { q.qp_type = static_cast<ibv_qp_type>(management); }));
  }
}

TEST(QueuePair, KeepsWhatItWasModifiedTo) {
  const Pair pair({}, {.mtu = IBV_MTU_2048,
                       .timeout = 11,
                       .retry_count = 3,
                       .rnr_retry = 5,
                       .min_rnr_timer = 9,
                       .rd_atomic = 7,
                       .psn = 0x123456});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, ~0, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(attributes.timeout, 11);
  EXPECT_EQ(attributes.retry_cnt, 3);
  EXPECT_EQ(attributes.rnr_retry, 5);
  EXPECT_EQ(attributes.min_rnr_timer, 9);
  EXPECT_EQ(attributes.max_rd_atomic, 7);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 7);
  EXPECT_EQ(attributes.rq_psn, 0x123456u);
  EXPECT_EQ(attributes.sq_psn, 0x123456u);
  EXPECT_EQ(attributes.dest_qp_num, pair.b.qp()->qp_num);
  EXPECT_EQ(attributes.qp_access_flags, static_cast<unsigned>(kAllAccess));
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_EQ(pair.a.qp()->state, IBV_QPS_RTS);
}

TEST(QueuePair, TransitionsWithoutTheirAttributesAreEinval) {
  const OpenDevice host;
  const Endpoint end(host);
  EXPECT_EQ(end.qp()->state, IBV_QPS_RESET);
  EXPECT_EQ(end.modify_state(IBV_QPS_INIT), EINVAL);  // Port, P_Key and access are missing.
  EXPECT_EQ(end.modify_state(IBV_QPS_RTR), EINVAL);
  end.to_init();
  EXPECT_EQ(end.qp()->state, IBV_QPS_INIT);
  EXPECT_EQ(end.modify_state(IBV_QPS_RTR), EINVAL);
  EXPECT_EQ(end.modify_state(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(end.state(), IBV_QPS_INIT);
}

TEST(QueuePair, ASendBeforeRtsIsEinvalAndSaysWhy) {
  const OpenDevice host;
  const Endpoint end(host);
  end.to_init();
  testing::internal::CaptureStderr();
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("in INIT"), std::string::npos) << said;
  EXPECT_NE(said.find("a queue pair sends from RTS on"), std::string::npos) << said;
}

/// Returns the result of the transition to RTR with one change.
int rtr_with(const std::function<void(ibv_qp_attr&)>& change) {
  const OpenDevice host;
  const Endpoint end(host);
  end.to_init();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = end.qp()->qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = host.gid(1);
  attributes.ah_attr.grh.sgid_index = 1;
  attributes.ah_attr.grh.hop_limit = 1;
  change(attributes);
  return ibv_modify_qp(end.qp(), &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

TEST(QueuePair, PathsThatCannotBeAreEinval) {
  EXPECT_EQ(rtr_with([](ibv_qp_attr&) {}), 0);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 40; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.grh.dgid = {}; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.max_dest_rd_atomic = 255; }), EINVAL);
}

TEST(Posting, InStatesThatCannotSendIsEinval) {
  const OpenDevice host;
  const Endpoint end(host);
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
  EXPECT_EQ(end.receive(1, 0, 8), EINVAL);
  end.to_init();
  EXPECT_EQ(end.receive(1, 0, 8), 0);  // Receives may be posted from INIT on.
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
  end.to_rtr(end.address());
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
}

TEST(Posting, ToAFullSendQueueIsEnomemAndNamesTheRequest) {
  const Pair pair({.completions = 256, .sends = 8});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  // No receive is posted, so no request completes.
  for (std::uint32_t i = 0; i < initial.cap.max_send_wr; ++i) {
    ASSERT_EQ(pair.a.post(IBV_WR_SEND, i, 0, 8), 0);
  }
  EXPECT_EQ(pair.a.post(IBV_WR_SEND, 99, 0, 8), ENOMEM);
}

TEST(Posting, ToAFullReceiveQueueIsEnomem) {
  const Pair pair;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  for (std::uint32_t i = 0; i < initial.cap.max_recv_wr; ++i) ASSERT_EQ(pair.a.receive(i, 0, 8), 0);
  EXPECT_EQ(pair.a.receive(99, 0, 8), ENOMEM);
}

TEST(Posting, MoreThanTheQueuePairHoldsIsEinval) {
  const Pair pair({.segments = 2, .inline_bytes = 16});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  const std::vector<ibv_sge> many(initial.cap.max_send_sge + 1, pair.a.segment(0, 1));
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(pair.a.post(request, many), EINVAL);
  EXPECT_EQ(
      pair.a.receive(1, std::vector<ibv_sge>(initial.cap.max_recv_sge + 1, pair.a.segment(0, 1))),
      EINVAL);
  request.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(pair.a.post(request, {pair.a.segment(0, initial.cap.max_inline_data + 1)}), EINVAL);
}

}  // namespace
}  // namespace verbs_test

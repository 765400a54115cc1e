#include <cerrno>

#include "test_util.h"

/// Shared receive queues.
namespace verbs_test {
namespace {

Owned<ibv_srq> create(const OpenDevice& host, std::uint32_t requests, std::uint32_t segments = 1) {
  ibv_srq_init_attr wanted{.srq_context = nullptr,
                           .attr = {.max_wr = requests, .max_sge = segments, .srq_limit = 0}};
  Owned<ibv_srq> srq(ibv_create_srq(host.pd(), &wanted));
  EXPECT_NE(srq, nullptr) << std::strerror(errno);
  EXPECT_GE(wanted.attr.max_wr, requests);
  EXPECT_GE(wanted.attr.max_sge, segments);
  return srq;
}

int post(ibv_srq* srq, std::uint64_t wr_id, ibv_sge segment) {
  ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq, &request, &bad);
}

int set_limit(ibv_srq* srq, std::uint32_t limit) {
  ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = limit};
  return ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT);
}

ibv_srq_attr query(ibv_srq* srq) {
  ibv_srq_attr attributes{};
  EXPECT_EQ(ibv_query_srq(srq, &attributes), 0);
  return attributes;
}

/// `count` senders, each connected to its own receiver; the receivers share a queue.
struct Shared {
  explicit Shared(int count, const ConnectOptions& connection = {}) : srq(create(host, 16)) {
    for (int i = 0; i < count; ++i) {
      senders.push_back(std::make_unique<Endpoint>(host, EndpointOptions{}));
      receivers.push_back(std::make_unique<Endpoint>(host, EndpointOptions{.srq = srq.get()}));
      senders.back()->connect(receivers.back()->address(), connection);
      receivers.back()->connect(senders.back()->address(), connection);
    }
  }
  OpenDevice host;
  Owned<ibv_srq> srq;
  std::vector<std::unique_ptr<Endpoint>> senders;
  std::vector<std::unique_ptr<Endpoint>> receivers;
};

TEST(SharedReceive, SeveralQueuePairsTakeFromOneQueueInOrder) {
  Shared pairs(3);
  const Endpoint& memory = *pairs.receivers[0];
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(post(pairs.srq.get(), i, memory.segment(i * 100, 100)), 0);
  }
  for (unsigned i = 0; i < 6; ++i) {
    const Endpoint& sender = *pairs.senders[i % 3];
    fill(sender.memory().first(100), i);
    ASSERT_EQ(sender.post(IBV_WR_SEND, i, 0, 100), 0);
    ASSERT_OK(sender.wait());
    const ibv_wc received = pairs.receivers[i % 3]->wait();
    ASSERT_OK(received);
    EXPECT_EQ(received.wr_id, i);
    EXPECT_EQ(received.qp_num, pairs.receivers[i % 3]->qp()->qp_num);
    EXPECT_EQ(difference(memory.memory().subspan(i * 100, 100), i), std::nullopt);
  }
}

TEST(SharedReceive, AnEmptyQueueMakesTheSenderTryAgain) {
  Shared pairs(1);
  ASSERT_EQ(pairs.senders[0]->post(IBV_WR_SEND, 1, 0, 8), 0);
  EXPECT_EQ(pairs.senders[0]->poll(1000), std::nullopt);
  ASSERT_EQ(post(pairs.srq.get(), 2, pairs.receivers[0]->segment(0, 8)), 0);
  ASSERT_OK(pairs.senders[0]->wait());
  ASSERT_OK(pairs.receivers[0]->wait());
}

TEST(SharedReceive, AnEmptyQueueAndNoRetriesIsAnError) {
  Shared pairs(1, {.rnr_retry = 0});
  ASSERT_EQ(pairs.senders[0]->post(IBV_WR_SEND, 1, 0, 8), 0);
  EXPECT_EQ(pairs.senders[0]->wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(SharedReceive, TheLimitIsToldOncePerArming) {
  Shared pairs(1);
  const Endpoint& receiver = *pairs.receivers[0];
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post(pairs.srq.get(), 0, receiver.segment(0, 8)), 0);
  ASSERT_EQ(set_limit(pairs.srq.get(), 3), 0);
  EXPECT_EQ(query(pairs.srq.get()).srq_limit, 3u);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(pairs.senders[0]->post(IBV_WR_SEND, 0, 0, 8), 0);
    ASSERT_OK(receiver.wait());
  }
  const auto event = pairs.host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->element.srq, pairs.srq.get());
  EXPECT_EQ(query(pairs.srq.get()).srq_limit, 0u);
  // One is left, so a limit above it is reached at once; no second event was raised before.
  ASSERT_EQ(set_limit(pairs.srq.get(), 2), 0);
  ASSERT_TRUE(pairs.host.wait_for_event());
}

TEST(SharedReceive, AnEventNobodyTookGoesWithItsQueue) {
  OpenDevice host;
  auto srq = create(host, 4);
  ASSERT_EQ(set_limit(srq.get(), 1), 0);
  srq.reset();
  auto other = create(host, 4);
  ASSERT_EQ(set_limit(other.get(), 1), 0);
  const auto event = host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element.srq, other.get());
}

TEST(SharedReceive, AnErrorFlushesNothingOfTheQueueAndTellsOfTheLastRequest) {
  Shared pairs(2);
  const Endpoint& receiver = *pairs.receivers[0];
  ASSERT_EQ(post(pairs.srq.get(), 7, receiver.segment(0, 8)), 0);
  ASSERT_EQ(receiver.modify_state(IBV_QPS_ERR), 0);
  const auto event = pairs.host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(event->element.qp, receiver.qp());
  EXPECT_EQ(receiver.poll(10), std::nullopt);
  ASSERT_EQ(pairs.senders[1]->post(IBV_WR_SEND, 1, 0, 8), 0);
  const ibv_wc received = pairs.receivers[1]->wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.wr_id, 7u);
}

TEST(SharedReceive, TooSmallAReceiveFailsItsQueuePairAlone) {
  Shared pairs(2);
  ASSERT_EQ(post(pairs.srq.get(), 1, pairs.receivers[0]->segment(0, 4)), 0);
  ASSERT_EQ(pairs.senders[0]->post(IBV_WR_SEND, 1, 0, 8), 0);
  EXPECT_EQ(pairs.receivers[0]->wait().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pairs.senders[0]->wait().status, IBV_WC_REM_INV_REQ_ERR);
  ASSERT_EQ(post(pairs.srq.get(), 2, pairs.receivers[1]->segment(0, 8)), 0);
  ASSERT_EQ(pairs.senders[1]->post(IBV_WR_SEND, 1, 0, 8), 0);
  ASSERT_OK(pairs.receivers[1]->wait());
}

TEST(SharedReceive, ResizingKeepsWhatWasPosted) {
  Shared pairs(1);
  const Endpoint& receiver = *pairs.receivers[0];
  ASSERT_EQ(post(pairs.srq.get(), 1, receiver.segment(0, 8)), 0);
  ASSERT_EQ(post(pairs.srq.get(), 2, receiver.segment(0, 8)), 0);
  ibv_srq_attr attributes{.max_wr = 1, .max_sge = 0, .srq_limit = 0};
  EXPECT_EQ(ibv_modify_srq(pairs.srq.get(), &attributes, IBV_SRQ_MAX_WR), EINVAL);
  attributes.max_wr = 100;
  ASSERT_EQ(ibv_modify_srq(pairs.srq.get(), &attributes, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(query(pairs.srq.get()).max_wr, 100u);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    ASSERT_EQ(pairs.senders[0]->post(IBV_WR_SEND, 0, 0, 8), 0);
    EXPECT_EQ(receiver.wait().wr_id, i);
  }
}

TEST(SharedReceive, WrongUse) {
  Shared pairs(1);
  ibv_srq* const srq = pairs.srq.get();
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(set_limit(srq, query(srq).max_wr + 1), EINVAL) << "above max_wr";
  ibv_srq_attr attributes{};
  EXPECT_EQ(ibv_modify_srq(srq, &attributes, 1 << 5), EINVAL);
  EXPECT_EQ(pairs.receivers[0]->receive(1, 0, 8), EINVAL) << "receives are posted to the queue";
  ibv_recv_wr request{};
  ibv_sge segments[2] = {};
  request.sg_list = segments;
  request.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &request, &bad), EINVAL);
  EXPECT_EQ(bad, &request);
  const std::uint32_t granted = query(srq).max_wr;
  for (std::uint32_t i = 0; i < granted; ++i) {
    EXPECT_EQ(post(srq, 0, pairs.receivers[0]->segment(0, 8)), 0);
  }
  EXPECT_EQ(post(srq, 0, pairs.receivers[0]->segment(0, 8)), ENOMEM);
}

}  // namespace
}  // namespace verbs_test

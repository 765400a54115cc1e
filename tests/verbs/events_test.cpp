#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <poll.h>

#include "test_util.h"

/// Completion channels and asynchronous events.
namespace verbs_test {
namespace {

bool readable(int fd, int timeout_ms = 0) {
  pollfd descriptor{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&descriptor, 1, timeout_ms) == 1;
}

/// A pair whose receiving side notifies a channel.
struct Told {
  explicit Told(const EndpointOptions& options = {})
      : channel(ibv_create_comp_channel(host.context())) {
    EndpointOptions b_options = options;
    b_options.channel = channel.get();
    a = std::make_unique<Endpoint>(host, options);
    b = std::make_unique<Endpoint>(host, b_options);
    a->connect(b->address());
    b->connect(a->address());
  }
  void send(unsigned flags = 0) const {
    ASSERT_EQ(b->receive(1, 0, 8), 0);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED | flags;
    ASSERT_EQ(a->post(request, {a->segment(0, 8)}), 0);
    ASSERT_OK(a->wait());
  }
  void take_event() const {
    ibv_cq* cq = nullptr;
    void* context = channel.get();
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &cq, &context), 0);
    EXPECT_EQ(cq, b->cq());
    EXPECT_EQ(context, nullptr);
    ibv_ack_cq_events(cq, 1);
  }
  OpenDevice host;
  Owned<ibv_comp_channel> channel;
  std::unique_ptr<Endpoint> a, b;
};

TEST(CompletionChannel, TellsOnceAfterEachArming) {
  const Told told;
  told.send();
  ASSERT_OK(told.b->wait());
  EXPECT_FALSE(readable(told.channel->fd));  // It was not armed.

  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 0), 0);
  told.send();
  told.send();
  ASSERT_TRUE(readable(told.channel->fd, 5000));
  told.take_event();
  EXPECT_FALSE(readable(told.channel->fd));  // It was not armed at the second send.
  ASSERT_OK(told.b->wait());
  ASSERT_OK(told.b->wait());
}

TEST(CompletionChannel, WakesAProgramThatSleeps) {
  const Told told;
  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 0), 0);
  std::thread sender([&] { told.send(); });
  told.take_event();  // Blocks.
  sender.join();
  ASSERT_OK(told.b->wait());
}

TEST(CompletionChannel, ArmedForSolicitedOnesIgnoresOthers) {
  const Told told;
  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 1), 0);
  told.send();
  ASSERT_OK(told.b->wait());
  EXPECT_FALSE(readable(told.channel->fd));
  told.send(IBV_SEND_SOLICITED);
  EXPECT_TRUE(readable(told.channel->fd, 5000));
  told.take_event();
}

TEST(CompletionChannel, ArmedForSolicitedOnesTellsOfErrors) {
  const Told told;
  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 1), 0);
  ASSERT_EQ(told.b->receive(1, 0, 8), 0);
  ASSERT_EQ(told.b->modify_state(IBV_QPS_ERR), 0);
  EXPECT_TRUE(readable(told.channel->fd, 5000));
  told.take_event();
}

TEST(CompletionChannel, NonBlockingGivesEagain) {
  const Told told;
  const int flags = fcntl(told.channel->fd, F_GETFL);
  ASSERT_EQ(fcntl(told.channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  errno = 0;
  EXPECT_EQ(ibv_get_cq_event(told.channel.get(), &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(CompletionChannel, GivesTheQueuesOwnContext) {
  const OpenDevice host;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
  int mark = 0;
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 4, &mark, channel.get(), 0));
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(cq->cq_context, &mark);
  EXPECT_EQ(cq->channel, channel.get());
  EXPECT_EQ(channel->context, host.context());
}

TEST(CompletionChannel, DestroyingAQueueDropsEventsThatNobodyTook) {
  Told told;
  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 0), 0);
  told.send();
  ASSERT_TRUE(readable(told.channel->fd, 5000));
  told.b.reset();
  EXPECT_FALSE(readable(told.channel->fd));
}

TEST(CompletionChannel, DestroyingAQueueWaitsForTheAcknowledgement) {
  Told told;
  ASSERT_EQ(ibv_req_notify_cq(told.b->cq(), 0), 0);
  told.send();
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(told.channel.get(), &cq, &context), 0);
  std::atomic<bool> acknowledged = false;
  std::thread destroyer([&] {
    told.b.reset();
    EXPECT_TRUE(acknowledged);
  });
  acknowledged = true;
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
}

TEST(AsyncEvents, DescriptorIsReadableWhenOneIsThere) {
  const OpenDevice host;
  EXPECT_FALSE(readable(host.context()->async_fd));
  const int flags = fcntl(host.context()->async_fd, F_GETFL);
  ASSERT_EQ(fcntl(host.context()->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_async_event event{};
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(host.context(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(AsyncEvents, CommunicationIsEstablishedByTheFirstPacketInRtr) {
  const OpenDevice host;
  const Endpoint a(host), b(host);
  a.connect(b.address());
  b.to_init();
  b.to_rtr(a.address());
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(b)), 0);
  const auto event = host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_COMM_EST);
  EXPECT_EQ(event->element.qp, b.qp());
  ASSERT_OK(a.wait());
}

TEST(AsyncEvents, DrainedSendQueueIsToldOfWhereAsked) {
  const Pair pair;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_SQD;
  attributes.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(pair.a.qp(), &attributes, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  const auto event = pair.host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event->element.qp, pair.a.qp());
}

TEST(AsyncEvents, OverrunCompletionQueueIsAnError) {
  EndpointOptions a;
  a.completions = 1;
  a.sends = 64;
  const Pair pair(a, EndpointOptions{});
  const int room = pair.a.cq()->cqe;
  for (int i = 0; i <= room && i < 60; ++i) {
    ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, static_cast<std::uint64_t>(i), 0, 8, to(pair.b)), 0);
  }
  const auto event = pair.host.wait_for_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event->element.cq, pair.a.cq());
}

TEST(AsyncEvents, DestroyingAQueuePairWaitsForTheAcknowledgement) {
  const OpenDevice host;
  auto a = std::make_unique<Endpoint>(host);
  auto b = std::make_unique<Endpoint>(host);
  a->connect(b->address());
  b->to_init();
  b->to_rtr(a->address());
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(*b)), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(host.context(), &event), 0);
  std::atomic<bool> acknowledged = false;
  std::thread destroyer([&] {
    b.reset();
    EXPECT_TRUE(acknowledged);
  });
  acknowledged = true;
  ibv_ack_async_event(&event);
  destroyer.join();
}

}  // namespace
}  // namespace verbs_test

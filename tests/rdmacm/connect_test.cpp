#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>

#include "test_util.h"

/// The order and content of events.
namespace rdmacm_test {
namespace {

/// A client and the id that its listener created for it, connected.
struct Connected {
  Connected() : client(listener.port()) {
    EXPECT_EQ(client.connect("hello"), 0);
    const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    if (!request) return;
    server.reset(request->id);
    make_queue_pair(server.get());
    rdma_conn_param wanted = parameters("welcome");
    EXPECT_EQ(rdma_accept(server.get(), &wanted), 0) << std::strerror(errno);
    response = client.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  Listener listener;
  Client client;
  Id server;
  Event response;
};

TEST(Connect, BothSidesAreEstablishedAndReady) {
  Connected pair;
  ASSERT_TRUE(pair.response);
  EXPECT_EQ(private_data(*pair.response, 7), "welcome");
  EXPECT_EQ(state_of(pair.client.id.get()), IBV_QPS_RTS);
  EXPECT_EQ(state_of(pair.server.get()), IBV_QPS_RTS);
}

TEST(Connect, RequestTellsWhoAndWhat) {
  Listener listener;
  Client client(listener.port());
  ASSERT_EQ(client.connect("hello"), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  EXPECT_EQ(request->listen_id, listener.id.get());
  EXPECT_EQ(server->context, &listener);
  EXPECT_EQ(server->channel, listener.channel.get());
  EXPECT_EQ(private_data(*request, 5), "hello");
  EXPECT_EQ(request->param.conn.private_data_len, 56);
  // The peer's initiator depth limits what this side must answer, and the other way round.
  EXPECT_EQ(request->param.conn.responder_resources, 2);
  EXPECT_EQ(request->param.conn.initiator_depth, 3);
  EXPECT_EQ(request->param.conn.rnr_retry_count, 6);
  EXPECT_EQ(request->param.conn.qp_num, client.id->qp->qp_num);
  EXPECT_NE(server->verbs, nullptr);
  EXPECT_NE(server->pd, nullptr);
  EXPECT_EQ(server->route.num_paths, 1);
  EXPECT_EQ(rdma_get_dst_port(server.get()), rdma_get_src_port(client.id.get()));
}

TEST(Connect, DisconnectingTellsBothSides) {
  Connected pair;
  ASSERT_EQ(rdma_disconnect(pair.client.id.get()), 0);
  EXPECT_EQ(state_of(pair.client.id.get()), IBV_QPS_ERR);
  pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  pair.client.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(pair.server.get()), 0);
  EXPECT_EQ(state_of(pair.server.get()), IBV_QPS_ERR);
}

TEST(Connect, DestroyingAnIdDisconnects) {
  Connected pair;
  pair.response.reset();
  pair.client.id.reset();
  pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

TEST(Connect, ARefusalCarriesItsReasonAndPrivateData) {
  Listener listener;
  Client client(listener.port());
  ASSERT_EQ(client.connect(), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  ASSERT_EQ(rdma_reject(server.get(), "busy", 4), 0);
  const Event rejected = client.channel.expect(RDMA_CM_EVENT_REJECTED);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->status, 28);  // Consumer defined.
  EXPECT_EQ(private_data(*rejected, 4), "busy");
}

TEST(Connect, APortWithoutListenerRejects) {
  std::uint16_t port = 0;
  {
    const Listener listener;
    port = listener.port();
  }
  Client client(port);
  ASSERT_EQ(client.connect(), 0);
  const Event rejected = client.channel.expect(RDMA_CM_EVENT_REJECTED);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->status, 8);  // Invalid service id.
}

TEST(Connect, DestroyingAListenerRefusesWhatWaits) {
  auto listener = std::make_unique<Listener>();
  Client client(listener->port());
  ASSERT_EQ(client.connect(), 0);
  ASSERT_TRUE(listener->channel.readable(kTimeoutMs));
  listener.reset();
  client.channel.expect(RDMA_CM_EVENT_REJECTED);
}

/// As Linux does: the client repeats its request.
TEST(Connect, MoreThanTheBacklogIsNotAnswered) {
  Listener listener(RDMA_PS_TCP, 1);
  Client first(listener.port());
  Client second(listener.port());
  ASSERT_EQ(first.connect(), 0);
  ASSERT_TRUE(listener.channel.readable(kTimeoutMs));
  ASSERT_EQ(second.connect(), 0);
  EXPECT_FALSE(second.channel.readable(100));
}

TEST(Connect, PrivateDataIsLimited) {
  Listener listener;
  Client client(listener.port());
  EXPECT_EQ(client.connect(std::string(57, 'x')), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(client.connect(std::string(56, 'x')), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  EXPECT_EQ(private_data(*request, 56), std::string(56, 'x'));
}

TEST(Connect, WithoutAQueuePairTheProgramEstablishes) {
  Listener listener;
  Client client(listener.port());
  rdma_destroy_qp(client.id.get());
  rdma_conn_param wanted = parameters();
  wanted.qp_num = 0x123456;
  ASSERT_EQ(rdma_connect(client.id.get(), &wanted), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  EXPECT_EQ(request->param.conn.qp_num, 0x123456u);
  wanted.qp_num = 0x654321;
  ASSERT_EQ(rdma_accept(server.get(), &wanted), 0);
  const Event response = client.channel.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->param.conn.qp_num, 0x654321u);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  int mask = 0;
  ASSERT_EQ(rdma_init_qp_attr(client.id.get(), &attributes, &mask), 0);
  EXPECT_EQ(attributes.dest_qp_num, 0x654321u);
  EXPECT_NE(mask & IBV_QP_AV, 0);
  ASSERT_EQ(rdma_establish(client.id.get()), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST(Connect, NotifyEstablishesBeforeTheLastMessage) {
  Listener listener;
  Client client(listener.port());
  ASSERT_EQ(client.connect(), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  make_queue_pair(server.get());
  rdma_conn_param wanted = parameters();
  ASSERT_EQ(rdma_accept(server.get(), &wanted), 0);
  // The client has not taken its event, so the RTU was not sent.
  ASSERT_EQ(rdma_notify(server.get(), IBV_EVENT_COMM_EST), 0);
  listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  client.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_FALSE(listener.channel.readable(50)) << "established twice";
}

TEST(Connect, AMigratedIdTakesItsEventsAlong) {
  const Channel other;  // It outlives the id.
  Connected pair;
  ASSERT_EQ(rdma_disconnect(pair.client.id.get()), 0);
  ASSERT_TRUE(pair.listener.channel.readable(kTimeoutMs));
  ASSERT_EQ(rdma_migrate_id(pair.server.get(), other.get()), 0);
  EXPECT_FALSE(pair.listener.channel.readable());
  other.expect(RDMA_CM_EVENT_DISCONNECTED);
  pair.client.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
}

/// rdma_migrate_id: "will block while there are any unacknowledged events".
TEST(Connect, MigratingWaitsUntilEventsAreAcknowledged) {
  const Channel other;
  Connected pair;
  ASSERT_EQ(rdma_disconnect(pair.client.id.get()), 0);
  Event event = pair.listener.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  std::atomic<bool> acknowledged = false;
  std::thread migrating([&] {
    EXPECT_EQ(rdma_migrate_id(pair.server.get(), other.get()), 0);
    EXPECT_TRUE(acknowledged);
  });
  std::this_thread::yield();
  acknowledged = true;
  event.reset();
  migrating.join();
}

/// The thread that takes the answer moves the queue pair, if it is still there.
TEST(Connect, AQueuePairIsDestroyedBesideRdmaGetCmEvent) {
  for (int round = 0; round < 50; ++round) {
    Listener listener;
    Client client(listener.port());
    ASSERT_EQ(client.connect(), 0);
    const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(request);
    const Id server(request->id);
    make_queue_pair(server.get());
    rdma_conn_param wanted = parameters();
    ASSERT_EQ(rdma_accept(server.get(), &wanted), 0);
    std::thread taking([&] { EXPECT_TRUE(client.channel.next()); });
    rdma_destroy_qp(client.id.get());
    taking.join();
  }
}

TEST(Channel, RespectsNonBlocking) {
  const Channel channel;
  ASSERT_EQ(fcntl(channel.get()->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Datagrams, AServiceIsResolvedToAQueuePair) {
  Listener listener(RDMA_PS_UDP);
  Client client(listener.port(), RDMA_PS_UDP);
  EXPECT_EQ(state_of(client.id.get()), IBV_QPS_RTS);
  ASSERT_EQ(client.connect("hello"), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  EXPECT_EQ(private_data(*request, 5), "hello");
  make_queue_pair(server.get());
  rdma_conn_param wanted = parameters("welcome");
  ASSERT_EQ(rdma_accept(server.get(), &wanted), 0);
  const Event established = client.channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_TRUE(established);
  EXPECT_EQ(established->param.ud.qp_num, server->qp->qp_num);
  EXPECT_EQ(established->param.ud.qkey, unsigned{RDMA_UDP_QKEY});
  EXPECT_EQ(established->param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(private_data(*established, 7), "welcome");
}

TEST(Datagrams, ARefusedServiceIsUnreachable) {
  Listener listener(RDMA_PS_UDP);
  Client client(listener.port(), RDMA_PS_UDP);
  ASSERT_EQ(client.connect(), 0);
  const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_TRUE(request);
  const Id server(request->id);
  ASSERT_EQ(rdma_reject(server.get(), nullptr, 0), 0);
  const Event unreachable = client.channel.expect(RDMA_CM_EVENT_UNREACHABLE);
  ASSERT_TRUE(unreachable);
  EXPECT_EQ(unreachable->status, 2);
}

}  // namespace
}  // namespace rdmacm_test

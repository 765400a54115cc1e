/// pthread_cancel(3) of a thread that is in one of our calls. pthreads(7) names the cancellation
/// points; of ours, only calls that wait for events are: they read a descriptor.
#include <ostream>
#include <string>
#include <vector>

#include <poll.h>
#include <pthread.h>

#include "../call_cancelled.h"
#include "test_util.h"

namespace verbs_test {
namespace {

using cancellation::call_cancelled;
using cancellation::End;

struct World {
  OpenDevice host;
  Endpoint a{host};
  Endpoint b{host};
  World() {
    a.connect(b.address());
    b.connect(a.address());
  }
};

struct Row {
  const char* name;
  void (*call)(World& world);
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

void make_queue_pair(World& world, ibv_qp_type type) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = world.a.cq();
  wanted.cap = {4, 4, 1, 1, 0};
  wanted.qp_type = type;
  const Owned<ibv_qp> made(ibv_create_qp(world.host.pd(), &wanted));
  EXPECT_NE(made, nullptr);
}

const Row kRows[] = {
    {"get_device_list", [](World&) { ibv_free_device_list(ibv_get_device_list(nullptr)); }},
    {"open_device", [](World&) { const OpenDevice device; }},
    {"query_device",
     [](World& world) {
       ibv_device_attr attributes;
       EXPECT_EQ(ibv_query_device(world.host.context(), &attributes), 0);
     }},
    {"query_port",
     [](World& world) {
       ibv_port_attr attributes;
       EXPECT_EQ(ibv_query_port(world.host.context(), 1, &attributes), 0);
     }},
    {"query_gid", [](World& world) { world.host.gid(1); }},
    {"alloc_pd",
     [](World& world) { const Owned<ibv_pd> made(ibv_alloc_pd(world.host.context())); }},
    {"reg_mr",
     [](World& world) {
       std::vector<std::byte> memory(1 << 20);
       const Owned<ibv_mr> made(
           ibv_reg_mr(world.host.pd(), memory.data(), memory.size(), kAllAccess));
       EXPECT_NE(made, nullptr);
     }},
    {"create_cq",
     [](World& world) {
       const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(world.host.context()));
       const Owned<ibv_cq> made(ibv_create_cq(world.host.context(), 16, nullptr, channel.get(), 0));
       EXPECT_EQ(ibv_req_notify_cq(made.get(), 0), 0);
     }},
    {"create_srq",
     [](World& world) {
       ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {4, 1, 0}};
       const Owned<ibv_srq> made(ibv_create_srq(world.host.pd(), &wanted));
       EXPECT_NE(made, nullptr);
     }},
    {"create_qp_rc", [](World& world) { make_queue_pair(world, IBV_QPT_RC); }},
    {"create_qp_ud", [](World& world) { make_queue_pair(world, IBV_QPT_UD); }},
    {"modify_qp",
     [](World& world) {
       Endpoint c(world.host);
       Endpoint d(world.host);
       c.connect(d.address());
       d.connect(c.address());
       EXPECT_EQ(c.modify_state(IBV_QPS_ERR), 0);
     }},
    {"attach_mcast",
     [](World& world) {
       const Endpoint datagrams(world.host, {.type = IBV_QPT_UD});
       ibv_gid group{};
       group.raw[0] = 0xff;
       group.raw[1] = 0x0e;
       group.raw[15] = 9;
       EXPECT_EQ(ibv_attach_mcast(datagrams.qp(), &group, 0), 0);
       EXPECT_EQ(ibv_detach_mcast(datagrams.qp(), &group, 0), 0);
     }},
    {"send",
     [](World& world) {
       EXPECT_EQ(world.b.receive(1, 0, 64), 0);
       EXPECT_EQ(world.a.post(IBV_WR_SEND, 2, 0, 64), 0);
       ASSERT_OK(world.a.wait());
       ASSERT_OK(world.b.wait());
     }},
    {"write_of_many_packets",
     [](World& world) {
       const Address peer = world.b.address();
       EXPECT_EQ(world.a.post(IBV_WR_RDMA_WRITE, 3, 0, 60 << 10,
                              [&](ibv_send_wr& request) {
                                request.wr.rdma.remote_addr = peer.memory;
                                request.wr.rdma.rkey = peer.rkey;
                              }),
                 0);
       ASSERT_OK(world.a.wait());
     }},
    {"failing_call",  // It logs.
     [](World& world) {
       EXPECT_EQ(ibv_reg_mr(world.host.pd(), nullptr, 4096, IBV_ACCESS_REMOTE_WRITE), nullptr);
     }},
};

class CancelledIn : public testing::TestWithParam<Row> {};

TEST_P(CancelledIn, CallEndsFirstAndOthersGoOn) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  World world;
  EXPECT_EQ(call_cancelled([&] { GetParam().call(world); }), End::after_the_call);
  GetParam().call(world);
  kRows[std::size(kRows) - 3].call(world);  // The connection carries data.
}

INSTANTIATE_TEST_SUITE_P(Calls, CancelledIn, testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

/// Where a wait begins although something is there, it is still there afterwards.
TEST(CancelledWait, CompletionEventStays) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const OpenDevice host;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
  const Endpoint a(host);
  const Endpoint b(host, {.channel = channel.get()});
  a.connect(b.address());
  b.connect(a.address());
  const auto take = [&] {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
  };
  EXPECT_EQ(call_cancelled(take), End::inside);

  ASSERT_EQ(ibv_req_notify_cq(b.cq(), 0), 0);
  ASSERT_EQ(b.receive(1, 0, 8), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, 0, 8), 0);
  pollfd ready{.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, 5000), 1);
  EXPECT_EQ(call_cancelled(take), End::inside);
  take();
}

TEST(CancelledWait, AsynchronousEventStays) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const OpenDevice host;
  const Endpoint a(host);
  const auto take = [&] {
    ibv_async_event event;
    if (ibv_get_async_event(host.context(), &event) == 0) ibv_ack_async_event(&event);
  };
  EXPECT_EQ(call_cancelled(take), End::inside);
}

/// A thread that already sleeps in the call.
TEST(CancelledWait, SleepingThreadEnds) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const OpenDevice host;
  for (int i = 0; i < 20; ++i) {
    const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
    const auto body = [](void* argument) -> void* {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ibv_get_cq_event(static_cast<ibv_comp_channel*>(argument), &cq, &context);
      return nullptr;
    };
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, nullptr, body, channel.get()), 0);
    if (i % 2 != 0) sched_yield();
    pthread_cancel(thread);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
}

}  // namespace
}  // namespace verbs_test

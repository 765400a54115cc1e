/// pthread_cancel(3) of a thread that is in a call of librdmacm or in a blocking rsocket call.
#include <functional>
#include <string>
#include <thread>

#include <rdma/rsocket.h>
#include <sys/socket.h>

#include "../call_cancelled.h"
#include "test_util.h"

namespace rdmacm_test {
namespace {

using cancellation::call_cancelled;
using cancellation::End;

TEST(Cancelled, CallsThatDoNotWaitEndFirst) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const Listener listener;
  EXPECT_EQ(call_cancelled([] { const Channel made; }), End::after_the_call);
  EXPECT_EQ(call_cancelled([&] {
              const Channel channel;
              const Id id = make_id(channel);
              sockaddr_in to = address_of(own_address(), listener.port());
              EXPECT_EQ(rdma_resolve_addr(id.get(), nullptr, as_sockaddr(to), 2000), 0);
            }),
            End::after_the_call);
  EXPECT_EQ(call_cancelled([] {
              rdma_addrinfo* found = nullptr;
              EXPECT_EQ(rdma_getaddrinfo(own_address().c_str(), "7471", nullptr, &found), 0);
              rdma_freeaddrinfo(found);
            }),
            End::after_the_call);
  EXPECT_EQ(call_cancelled([] { EXPECT_EQ(rclose(rsocket(AF_INET, SOCK_STREAM, 0)), 0); }),
            End::after_the_call);
}

TEST(Cancelled, EventStaysForTheNextThread) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const Listener listener;
  const auto take = [&] {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(listener.channel.get(), &event) == 0) rdma_ack_cm_event(event);
  };
  EXPECT_EQ(call_cancelled(take), End::inside);
  Client client(listener.port());
  EXPECT_EQ(client.connect(), 0);
  EXPECT_TRUE(listener.channel.readable(kTimeoutMs));
  EXPECT_EQ(call_cancelled(take), End::inside);
  const Event event = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(rdma_reject(event->id, nullptr, 0), 0);
  client.channel.expect(RDMA_CM_EVENT_REJECTED);
  rdma_destroy_id(event->id);
}

/// The socket is not left locked, nor does it count a thread that waits and is gone.
TEST(Cancelled, BlockingRsocketGoesOn) {
  if (cancellation::kIsSanitized) GTEST_SKIP();
  const int listening = rsocket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = address_of(own_address(), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(rbind(listening, as_sockaddr(address), length), 0);
  ASSERT_EQ(rlisten(listening, 4), 0);
  ASSERT_EQ(rgetsockname(listening, as_sockaddr(address), &length), 0);
  EXPECT_EQ(call_cancelled([&] { raccept(listening, nullptr, nullptr); }), End::inside);

  pollfd waiting{.fd = listening, .events = POLLIN, .revents = 0};
  EXPECT_EQ(call_cancelled([&] { rpoll(&waiting, 1, -1); }), End::inside);

  const int connecting = rsocket(AF_INET, SOCK_STREAM, 0);
  std::thread thread([&] { EXPECT_EQ(rconnect(connecting, as_sockaddr(address), length), 0); });
  const int accepted = raccept(listening, nullptr, nullptr);
  thread.join();
  ASSERT_GE(accepted, 0);

  char byte = 0;
  EXPECT_EQ(call_cancelled([&] { rrecv(accepted, &byte, 1, 0); }), End::inside);
  ASSERT_EQ(rsend(connecting, "x", 1, 0), 1);
  EXPECT_EQ(rrecv(accepted, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  for (const int socket : {accepted, connecting, listening}) EXPECT_EQ(rclose(socket), 0);
}

}  // namespace
}  // namespace rdmacm_test

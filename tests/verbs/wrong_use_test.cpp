#include <cerrno>

#include "test_util.h"

/// Wrong use on the wire: each case has the completion that a card gives on either side.
namespace verbs_test {
namespace {

/// A write that the peer refuses: checks the requester's status and the events of the peer's queue
/// pair.
void expect_refused_write(const Pair& pair, const std::function<void(ibv_send_wr&)>& change,
                          ibv_wc_status status, std::optional<ibv_event_type> event,
                          std::uint32_t length = 64) {
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, length, change), 0);
  EXPECT_EQ(pair.a.wait().status, status);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  for (const std::byte touched : pair.b.memory()) ASSERT_EQ(touched, std::byte{0});
  if (!event) return;
  const auto told = pair.host.wait_for_event();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->event_type, *event);
  EXPECT_EQ(told->element.qp, pair.b.qp());
}

TEST(RemoteKey, UnknownOneIsAnAccessError) {
  const Pair pair;
  fill(pair.a.memory(), 1);
  expect_refused_write(
      pair,
      [&](ibv_send_wr& request) {
        to(pair.b)(request);
        request.wr.rdma.rkey ^= 0x5a5a00;
      },
      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteKey, OutOfBoundsIsAnAccessErrorAtEitherEnd) {
  for (const std::int64_t offset : {-1l, (64l << 10) - 63}) {
    const Pair pair;
    fill(pair.a.memory(), 1);
    expect_refused_write(pair, to(pair.b, static_cast<std::size_t>(offset)), IBV_WC_REM_ACCESS_ERR,
                         IBV_EVENT_QP_ACCESS_ERR);
  }
}

TEST(RemoteKey, AddressesThatWrapAreAnAccessError) {
  const Pair pair;
  fill(pair.a.memory(), 1);
  expect_refused_write(
      pair,
      [&](ibv_send_wr& request) {
        to(pair.b)(request);
        request.wr.rdma.remote_addr = ~std::uint64_t{0} - 8;
      },
      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteKey, RegionWithoutTheRightIsAnAccessError) {
  EndpointOptions b;
  b.memory_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  const Pair pair({}, b);
  fill(pair.a.memory(), 1);
  expect_refused_write(pair, to(pair.b), IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteKey, RegionOfAnotherDomainIsAnAccessError) {
  const OpenDevice host;
  const Owned<ibv_pd> other(ibv_alloc_pd(host.context()));
  const Endpoint a(host);
  EndpointOptions options;
  options.pd = other.get();
  const Endpoint b(host,
                   options);  // Its region belongs to the host's domain, its queue pair does not.
  a.connect(b.address());
  b.connect(a.address());
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(b)), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(RemoteKey, DeregisteredRegionIsAnAccessError) {
  const Pair pair;
  ibv_mr* const region = ibv_reg_mr(pair.host.pd(), pair.b.memory().data(), 4096, kAllAccess);
  ASSERT_NE(region, nullptr);
  const std::uint32_t key = region->rkey;
  ASSERT_EQ(ibv_dereg_mr(region), 0);
  fill(pair.a.memory(), 1);
  expect_refused_write(
      pair,
      [&](ibv_send_wr& request) {
        to(pair.b)(request);
        request.wr.rdma.rkey = key;
      },
      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST(RemoteKey, ReadAndAtomicsAreCheckedToo) {
  EndpointOptions b;
  b.memory_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const Pair pair({}, b);
    ASSERT_EQ(pair.a.post(opcode, 1, 0, 8, to(pair.b)), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST(RemoteKey, RequestsOfNoBytesNeedNone) {
  const Pair pair;  // IBA C9-88.
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 0,
                        [](ibv_send_wr& request) { request.wr.rdma.rkey = 0xdeadbeef; }),
            0);
  ASSERT_OK(pair.a.wait());
}

TEST(RemoteOperation, QueuePairWithoutTheRightIsAnInvalidRequest) {
  EndpointOptions b;
  b.queue_pair_access = IBV_ACCESS_LOCAL_WRITE;
  const Pair pair({}, b);
  fill(pair.a.memory(), 1);
  expect_refused_write(pair, to(pair.b), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST(RemoteOperation, UnalignedAtomicIsAnInvalidRequest) {
  const Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, to(pair.b, 4)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(LocalKey, UnknownOneIsAProtectionError) {
  const Pair pair;
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  ibv_sge segment = pair.a.segment(0, 16);
  segment.lkey ^= 0x5a5a00;
  ASSERT_EQ(pair.a.post(request, {segment}), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);  // Errors of unsignaled ones complete, too.
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(LocalKey, OutOfBoundsIsAProtectionError) {
  const Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, (64 << 10) - 8, 9), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(LocalKey, RegionOfAnotherDomainIsAProtectionError) {
  const Pair pair;
  const Owned<ibv_pd> other(ibv_alloc_pd(pair.host.context()));
  const Owned<ibv_mr> region(ibv_reg_mr(other.get(), pair.a.memory().data(), 64, kAllAccess));
  ibv_sge segment = pair.a.segment(0, 16);
  segment.lkey = region->lkey;
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(pair.a.post(request, {segment}), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(LocalKey, ReadIntoMemoryWithoutWriteRightIsAProtectionError) {
  EndpointOptions a;
  a.memory_access = 0;
  const Pair pair(a, EndpointOptions{});
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_READ, 1, 0, 16, to(pair.b)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(LocalKey, ReceiveIntoABadBufferFailsBothSides) {
  const Pair pair;
  ibv_sge segment = pair.b.segment(0, 16);
  segment.lkey ^= 0x5a5a00;
  ASSERT_EQ(pair.b.receive(2, {segment}), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 16), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_OP_ERR);
}

TEST(Receive, TooSmallFailsBothSides) {
  const Pair pair;
  ASSERT_EQ(pair.b.receive(2, 0, 9), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 10), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Receive, NonePostedExhaustsTheRetriesForRnr) {
  for (const int retries : {0, 2}) {
    const Pair pair({}, {.rnr_retry = static_cast<std::uint8_t>(retries)});
    ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 10), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);  // The responder made no error.
  }
}

TEST(Peer, ThatIsGoneExhaustsTheRetries) {
  Pair pair({}, {.timeout = 8, .retry_count = 2});  // 1 ms.
  pair.b.destroy_queue_pair();
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 10), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
}

TEST(Peer, InErrorExhaustsTheRetries) {
  const Pair pair({}, {.timeout = 8, .retry_count = 1});
  ASSERT_EQ(pair.b.modify_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 10, to(pair.b)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(ErrorState, FlushesWhatIsOutstandingAndWhatIsPostedLater) {
  const Pair pair;
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(pair.a.receive(i, 0, 8), 0);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.receive(3, 0, 8), 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const ibv_wc flushed = pair.a.wait();
    EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(flushed.wr_id, i);
  }
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 9, 0, 8), 0);
  const ibv_wc flushed = pair.a.wait();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.wr_id, 9u);
}

TEST(ErrorState, RequestsBehindTheFailedOneAreFlushed) {
  const Pair pair;
  ASSERT_EQ(pair.a.receive(7, 0, 8), 0);
  ibv_sge bad = pair.a.segment(0, 8);
  bad.lkey ^= 0x5a5a00;
  ibv_sge good = pair.a.segment(0, 8);
  ibv_send_wr second{};
  second.wr_id = 2;
  second.opcode = IBV_WR_SEND;
  second.sg_list = &good;
  second.num_sge = 1;
  ibv_send_wr first = second;
  first.wr_id = 1;
  first.sg_list = &bad;
  first.next = &second;
  ibv_send_wr* refused = nullptr;
  ASSERT_EQ(ibv_post_send(pair.a.qp(), &first, &refused), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
  int flushed = 0;
  for (int i = 0; i < 2; ++i) flushed += pair.a.wait().status == IBV_WC_WR_FLUSH_ERR;
  EXPECT_EQ(flushed, 2);  // The second request and the receive.
}

TEST(ErrorState, RecoversThroughReset) {
  const Pair pair;
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_ERR), 0);
  for (const Endpoint* end : {&pair.a, &pair.b}) ASSERT_EQ(end->modify_state(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  ASSERT_EQ(pair.b.receive(1, 0, 8), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 2, 0, 8), 0);
  ASSERT_OK(pair.b.wait());
  ASSERT_OK(pair.a.wait());
}

TEST(UnreliableConnection, LosesWhatThePeerRefusesAndGoesOn) {
  const Pair pair({.type = IBV_QPT_UC});
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8,
                        [](ibv_send_wr& request) { request.wr.rdma.rkey = 1; }),
            0);
  ASSERT_OK(pair.a.wait());
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 2, 0, 8), 0);  // No receive: dropped silently.
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(pair.b.poll(1000), std::nullopt);
  ASSERT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST(UnreliableConnection, ReadsAndAtomicsAreRefused) {
  const Pair pair({.type = IBV_QPT_UC});
  EXPECT_EQ(pair.a.post(IBV_WR_RDMA_READ, 1, 0, 8, to(pair.b)), EINVAL);
  EXPECT_EQ(pair.a.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, to(pair.b)), EINVAL);
}

}  // namespace
}  // namespace verbs_test

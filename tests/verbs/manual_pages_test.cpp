#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_util.h"

/// What the manual pages of rdma-core 65 say in their notes, call by call. docs/manual_pages.md has
/// the table.
namespace verbs_test {
namespace {

/// The group 239.7.8.`last`, as a GID.
ibv_gid group(std::uint8_t last) {
  return {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 7, 8, last}};
}

ibv_qp_attr query(const Endpoint& end, int mask) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(end.qp(), &attributes, mask, &initial), 0);
  return attributes;
}

bool has_event(const OpenDevice& host) {
  const int flags = fcntl(host.context()->async_fd, F_GETFL);
  fcntl(host.context()->async_fd, F_SETFL, flags | O_NONBLOCK);
  ibv_async_event event{};
  errno = 0;
  const int result = ibv_get_async_event(host.context(), &event);
  if (result == 0) ibv_ack_async_event(&event);
  EXPECT_TRUE(result == 0 || errno == EAGAIN) << errno;
  fcntl(host.context()->async_fd, F_SETFL, flags);
  return result == 0;
}

// ibv_query_qp: the attributes of the mask. libibverbs keeps the state in `qp->state` if that is
// one of them.
TEST(ManualPages, QueryQpTouchesTheStateOnlyIfAsked) {
  const Pair pair;
  pair.a.qp()->state = IBV_QPS_SQE;
  query(pair.a, IBV_QP_PORT);
  EXPECT_EQ(pair.a.qp()->state, IBV_QPS_SQE);
  query(pair.a, IBV_QP_STATE);
  EXPECT_EQ(pair.a.qp()->state, IBV_QPS_RTS);
}

// ibv_query_qp, sq_draining: "Is the QP draining? (Valid only if qp_state is SQD)".
TEST(ManualPages, QueryQpTellsWhetherTheSendQueueDrains) {
  const char* const path = std::getenv("VERBATIM_PATH");
  const Pair pair;
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_SQD), 0);
  EXPECT_EQ(query(pair.a, IBV_QP_STATE).sq_draining, 0);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_RTS), 0);
  // On the direct path a message that finds no receive has not begun.
  if (path == nullptr || std::string(path) != "wire") return;
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 8), 0);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_SQD), 0);
  EXPECT_EQ(query(pair.a, IBV_QP_STATE).sq_draining, 1);
  ASSERT_EQ(pair.b.receive(1, 0, 8), 0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(query(pair.a, IBV_QP_STATE).sq_draining, 0);
}

// ibv_modify_qp, en_sqd_async_notify: "Valid only if qp_state is SQD".
TEST(ManualPages, ModifyQpNotifiesOfDrainingForOneTransition) {
  const Pair pair;
  for (const bool asks : {true, false, true}) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_SQD;
    attributes.en_sqd_async_notify = 1;
    const int mask = asks ? IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY : int{IBV_QP_STATE};
    ASSERT_EQ(ibv_modify_qp(pair.a.qp(), &attributes, mask), 0);
    EXPECT_EQ(has_event(pair.host), asks);
    ASSERT_EQ(pair.a.modify_state(IBV_QPS_RTS), 0);
  }
}

// ibv_create_qp: "will fail if it is asked to create QP of a type other than RC or UD associated
// with an SRQ"; "max_recv_wr and max_recv_sge are ignored [...] if the QP is to be associated with
// an SRQ".
TEST(ManualPages, CreateQpBesideASharedReceiveQueue) {
  const OpenDevice host;
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 8, nullptr, nullptr, 0));
  ibv_srq_init_attr shared{.srq_context = nullptr,
                           .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
  const Owned<ibv_srq> srq(ibv_create_srq(host.pd(), &shared));
  for (const ibv_qp_type type :
       {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND}) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = type;
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.srq = srq.get();
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1u << 30,
                  .max_send_sge = 1,
                  .max_recv_sge = 1u << 30,
                  .max_inline_data = 0};
    errno = 0;
    const Owned<ibv_qp> qp(ibv_create_qp(host.pd(), &wanted));
    const bool may_share = type == IBV_QPT_RC || type == IBV_QPT_UD;
    EXPECT_EQ(qp != nullptr, may_share || type == IBV_QPT_XRC_SEND) << type;
    EXPECT_TRUE(qp != nullptr || errno == EINVAL) << type << ": " << errno;
  }
}

// ibv_destroy_qp: "fails if the QP is attached to a multicast group".
TEST(ManualPages, DestroyQpOfAMulticastGroupIsEbusy) {
  const OpenDevice host;
  const ibv_gid gid = group(static_cast<std::uint8_t>(getpid()));
  const Endpoint end(host, {.type = IBV_QPT_UD});
  end.connect({});
  ASSERT_EQ(ibv_attach_mcast(end.qp(), &gid, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(end.qp(), &gid, 0), 0) << "again";
  EXPECT_EQ(ibv_destroy_qp(end.qp()), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(end.qp(), &gid, 0), 0);
}

// ibv_alloc_parent_domain, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC: "If the device
// does not report this flag, providers may continue to use plain memory".
TEST(ManualPages, AllocParentDomainMayAllowUnprotectedMemory) {
  const OpenDevice host;
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = host.pd();
  wanted.comp_mask = 1u << 2;
  const Owned<ibv_pd> domain(ibv_alloc_parent_domain(host.context(), &wanted));
  EXPECT_NE(domain, nullptr);
  wanted.comp_mask = 1u << 3;
  EXPECT_EQ(ibv_alloc_parent_domain(host.context(), &wanted), nullptr);
}

// ibv_event_type_str: also of the newest event.
TEST(ManualPages, EventsHaveTheirNames) {
  constexpr auto kSpeedChange = static_cast<ibv_event_type>(IBV_EVENT_WQ_FATAL + 1);
  EXPECT_STREQ(ibv_event_type_str(kSpeedChange), "Device link speed change");
  EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(kSpeedChange + 1)), "unknown");
}

// ibv_modify_srq: "If any of the modify attributes is invalid, none of the attributes will be
// modified".
TEST(ManualPages, ModifySrqChangesAllOrNothing) {
  const OpenDevice host;
  ibv_srq_init_attr shared{.srq_context = nullptr,
                           .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
  const Owned<ibv_srq> srq(ibv_create_srq(host.pd(), &shared));
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(ibv_post_srq_recv(srq.get(), &request, &bad), 0);
  for (const ibv_srq_attr& wrong :
       {ibv_srq_attr{.max_wr = 2, .max_sge = 0, .srq_limit = 1},
        ibv_srq_attr{.max_wr = 1u << 30, .max_sge = 0, .srq_limit = 1},
        ibv_srq_attr{.max_wr = 16, .max_sge = 0, .srq_limit = 1u << 30}}) {
    ibv_srq_attr attributes = wrong;
    EXPECT_EQ(ibv_modify_srq(srq.get(), &attributes, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
    EXPECT_EQ(ibv_query_srq(srq.get(), &attributes), 0);
    EXPECT_EQ(attributes.max_wr, shared.attr.max_wr);
    EXPECT_EQ(attributes.srq_limit, 0u);
  }
}

// ibv_create_ah: "If port flag IBV_QPF_GRH_REQUIRED is set then ibv_create_ah() must be created
// with [...] is_global = 1". ibv_init_ah_from_wc: "-1 on error".
TEST(ManualPages, CreateAhNeedsARouteOverEthernet) {
  const OpenDevice host;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(host.context(), 1, &port), 0);
  EXPECT_NE(port.flags & IBV_QPF_GRH_REQUIRED, 0);
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  errno = 0;
  EXPECT_EQ(ibv_create_ah(host.pd(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_wc completion{};
  completion.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};  // Its destination is no GID of the port.
  EXPECT_EQ(ibv_init_ah_from_wc(host.context(), 1, &completion, &grh, &attributes), -1);
}

// ibv_bind_mw: "for type 2 MW, one should directly post bind WR to the QP"; "must be either UC, RC
// or XRC_SEND".
TEST(ManualPages, BindMwIsForWindowsOfType1AndConnectedQueuePairs) {
  const OpenDevice host;
  const Endpoint rc(host, {.memory_access = kAllAccess | IBV_ACCESS_MW_BIND});
  const Endpoint ud(host, {.type = IBV_QPT_UD});
  rc.connect(rc.address());
  ud.connect({});
  ibv_mw_bind bind{};
  bind.bind_info = {
      .mr = rc.mr(), .addr = rc.at(0), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  ibv_mw* const second = ibv_alloc_mw(host.pd(), IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_bind_mw(rc.qp(), second, &bind), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(second), 0);
  ibv_mw* const first = ibv_alloc_mw(host.pd(), IBV_MW_TYPE_1);
  EXPECT_NE(ibv_bind_mw(ud.qp(), first, &bind), 0);
  EXPECT_EQ(ibv_dealloc_mw(first), 0);
}

// ibv_alloc_null_mr: "The use of ibv_rereg_mr() or ibv_bind_mw() with this MR is invalid".
TEST(ManualPages, NullMrIsNotReregistered) {
  const OpenDevice host;
  ibv_mr* const null = ibv_alloc_null_mr(host.pd());
  if (null == nullptr) GTEST_SKIP() << "no null region";
  EXPECT_NE(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

// ibv_alloc_dm: "user must set the IBV_ACCESS_ZERO_BASED flag"; "ibv_free_dm() may fail if any
// other resources [...] is still associated".
TEST(ManualPages, DeviceMemoryIsZeroBasedAndFreedLast) {
  const OpenDevice host;
  ibv_alloc_dm_attr wanted{};
  wanted.length = 64;
  ibv_dm* const memory = ibv_alloc_dm(host.context(), &wanted);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(host.pd(), memory, 0, 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  ibv_mr* const region =
      ibv_reg_dm_mr(host.pd(), memory, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(region, nullptr);
  EXPECT_NE(ibv_free_dm(memory), 0);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(memory), 0);
}

// ibv_query_gid_table: "If there are more valid GID entries than [...] max_entries [...] the call
// will fail" with a negative errno value.
TEST(ManualPages, QueryGidTableNeedsRoomForAll) {
  const OpenDevice host;
  ibv_gid_entry entries[64];
  const ssize_t count = ibv_query_gid_table(host.context(), entries, 64, 0);
  ASSERT_GT(count, 1);
  EXPECT_EQ(ibv_query_gid_table(host.context(), entries, static_cast<std::size_t>(count) - 1, 0),
            -EINVAL);
}

// ibv_advise_mr: the errno values of its page.
TEST(ManualPages, AdviseMrTellsWhatIsWrong) {
  const OpenDevice host;
  const Endpoint end(host, {.memory_access = kAllAccess | IBV_ACCESS_ON_DEMAND});
  const auto advise = [&](ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge segment) {
    return ibv_advise_mr(host.pd(), advice, flags, &segment, 1);
  };
  const ibv_sge good = end.segment(0, 64);
  ibv_sge beyond = good, unknown = good;
  beyond.addr = end.at(64 << 10);
  unknown.lkey ^= 0xff00;
  constexpr auto kFlush = IBV_ADVISE_MR_FLAG_FLUSH;
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kFlush, good), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, kFlush, good), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 5, good), EINVAL) << "flags";
  EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(3), kFlush, good), ENOTSUP);
  const int range = advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kFlush, beyond);
  EXPECT_TRUE(range == EFAULT || range == ENOENT) << range;
  const int key = advise(IBV_ADVISE_MR_ADVICE_PREFETCH, kFlush, unknown);
  EXPECT_TRUE(key == EFAULT || key == ENOENT) << key;
}

// ibv_poll_cq: "In case of a CQ overrun, the async event IBV_EVENT_CQ_ERR will be triggered".
// ibv_get_async_event: "-1 on error", EAGAIN if its descriptor does not block.
TEST(ManualPages, GetAsyncEventWithoutBlocking) {
  const OpenDevice host;
  EXPECT_FALSE(has_event(host));
}

/// Libraries find out what a device has by trying: all is well if it says no, and it says it
/// without a line.
TEST(Probes, AreAnsweredWithoutAWarning) {
  if (std::getenv("VERBATIM_LOG") != nullptr) GTEST_SKIP() << "the level is set";
  const Pair pair;
  testing::internal::CaptureStderr();
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(pair.host.context(), 1, 64, &pkey), -1);
  ibv_ece options{};
  EXPECT_EQ(ibv_query_ece(pair.a.qp(), &options), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_reg_dmabuf_mr(pair.host.pd(), 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EBADF);
  for (std::uint32_t bytes = 1 << 20; bytes > 1 << 14; bytes /= 2) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = pair.a.cq();
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = bytes};
    EXPECT_EQ(ibv_create_qp(pair.host.pd(), &wanted), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace verbs_test

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "test_util.h"

/// XRC: domains, queues that are named by number, and the two ends of a connection.
namespace verbs_test {
namespace {

Owned<ibv_xrcd> open_domain(const OpenDevice& host, int fd = -1, int flags = O_CREAT) {
  ibv_xrcd_init_attr wanted{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags};
  return Owned<ibv_xrcd>(ibv_open_xrcd(host.context(), &wanted));
}

/// A file for XRC domains.
struct TemporaryFile {
  TemporaryFile() : fd(mkstemp(path)) { EXPECT_GE(fd, 0); }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    close(fd);
    unlink(path);
  }
  char path[32] = "/tmp/verbatim-xrc-test-XXXXXX";
  int fd;
};

/// The receiving side: domain, target queue pair, and a shared receive queue with its own
/// completion queue.
struct Target {
  explicit Target(const OpenDevice& host, int fd = -1, const EndpointOptions& options = {})
      : endpoint(host, options), domain(open_domain(host, fd)) {
    EXPECT_NE(domain, nullptr);
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_XRC_RECV;
    wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    wanted.xrcd = domain.get();
    qp.reset(ibv_create_qp_ex(host.context(), &wanted));
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    srq = create_queue(host, domain.get());
  }
  Owned<ibv_srq> create_queue(const OpenDevice& host, ibv_xrcd* in) const {
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = host.pd();
    wanted.xrcd = in;
    wanted.cq = endpoint.cq();
    Owned<ibv_srq> created(ibv_create_srq_ex(host.context(), &wanted));
    EXPECT_NE(created, nullptr) << std::strerror(errno);
    return created;
  }
  int post(std::uint64_t wr_id, std::size_t offset, std::uint32_t length) const {
    ibv_sge segment = endpoint.segment(offset, length);
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &segment, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq.get(), &request, &bad);
  }

  Endpoint endpoint;  // For its memory and completion queue; its queue pair stays idle.
  Owned<ibv_xrcd> domain;
  Owned<ibv_srq> srq;
  Owned<ibv_qp> qp;
};

std::uint32_t number_of(ibv_srq* srq) {
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq, &number), 0);
  return number;
}

void modify(ibv_qp* qp, const OpenDevice& host, std::uint32_t peer_qpn, bool asks) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
            0);
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer_qpn;
  attributes.rq_psn = attributes.sq_psn = 0xfffffe;
  attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = host.gid(1);
  attributes.ah_attr.grh.sgid_index = 1;
  attributes.ah_attr.grh.hop_limit = 64;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
  if (!asks) return;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 7;
  ASSERT_EQ(ibv_modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
            0);
}

/// A sender that is connected to a target, in one program.
struct Xrc {
  explicit Xrc(int fd = -1, const EndpointOptions& receiving = {})
      : target(host, fd, receiving),
        sender(host, {.type = IBV_QPT_XRC_SEND, .memory_bytes = receiving.memory_bytes}) {
    modify(target.qp.get(), host, sender.qp()->qp_num, false);
    modify(sender.qp(), host, target.qp->qp_num, true);
  }
  int post(ibv_wr_opcode opcode, std::uint32_t srq, std::uint32_t length = 8) const {
    return sender.post(opcode, 1, 0, length, [&](ibv_send_wr& request) {
      request.qp_type.xrc.remote_srqn = srq;
      if (opcode != IBV_WR_SEND) to(target.endpoint.address())(request);
    });
  }
  OpenDevice host;
  Target target;
  Endpoint sender;
};

TEST(Xrc, ASendGoesToTheQueueThatItNamesAndCompletesThere) {
  Xrc xrc;
  const auto other = xrc.target.create_queue(xrc.host, xrc.target.domain.get());
  ASSERT_EQ(xrc.target.post(5, 0, 5000), 0);
  fill(xrc.sender.memory().first(5000), 3);
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get()), 5000), 0);
  ASSERT_OK(xrc.sender.wait());
  const ibv_wc received = xrc.target.endpoint.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.wr_id, 5u);
  EXPECT_EQ(received.byte_len, 5000u);
  EXPECT_EQ(received.qp_num, xrc.target.qp->qp_num);
  EXPECT_EQ(received.src_qp, xrc.sender.qp()->qp_num);
  EXPECT_EQ(difference(xrc.target.endpoint.memory().first(5000), 3), std::nullopt);
  EXPECT_NE(number_of(other.get()), number_of(xrc.target.srq.get()));
}

TEST(Xrc, EveryOperation) {
  Xrc xrc;
  const std::uint32_t srq = number_of(xrc.target.srq.get());
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                     IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    ASSERT_EQ(xrc.post(opcode, srq), 0);
    ASSERT_OK(xrc.sender.wait());
  }
}

TEST(Xrc, AQueueOfNobodyOrOfAnotherDomainIsAnInvalidRequest) {
  {
    Xrc xrc;
    ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get()) ^ 1), 0);
    EXPECT_EQ(xrc.sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
  }
  Xrc xrc;
  const auto domain = open_domain(xrc.host);
  const auto other = xrc.target.create_queue(xrc.host, domain.get());
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(other.get())), 0);
  EXPECT_EQ(xrc.sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Xrc, AnEmptyQueueMakesTheSenderTryAgain) {
  Xrc xrc;
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get())), 0);
  EXPECT_EQ(xrc.sender.poll(1000), std::nullopt);
  ASSERT_EQ(xrc.target.post(5, 0, 8), 0);
  ASSERT_OK(xrc.sender.wait());
}

TEST(Xrc, WhoWaitsForAQueueHearsOfItsCompletionsAndOfItsLimit) {
  const OpenDevice other;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(other.context()));
  Xrc xrc(-1, {.channel = channel.get()});
  ASSERT_EQ(xrc.target.post(5, 0, 8), 0);
  ASSERT_EQ(xrc.target.post(6, 0, 8), 0);
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(xrc.target.srq.get(), &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_req_notify_cq(xrc.target.endpoint.cq(), 0), 0);
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get())), 0);
  ibv_cq* told = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &told, &context), 0);
  EXPECT_EQ(told, xrc.target.endpoint.cq());
  ibv_ack_cq_events(told, 1);
  EXPECT_EQ(xrc.target.endpoint.wait().wr_id, 5u);
  for (;;) {  // The event of the target queue pair's first message may come before.
    const auto event = xrc.host.wait_for_event();
    ASSERT_TRUE(event);
    if (event->event_type == IBV_EVENT_COMM_EST) continue;
    EXPECT_EQ(event->event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    EXPECT_EQ(event->element.srq, xrc.target.srq.get());
    break;
  }
}

TEST(Xrc, AReceiveThatIsTooSmallFailsBothSides) {
  Xrc xrc;
  ASSERT_EQ(xrc.target.post(5, 0, 4), 0);
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get())), 0);
  EXPECT_EQ(xrc.sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
  const ibv_wc received = xrc.target.endpoint.wait();
  EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(received.wr_id, 5u);
}

/// A message that is partly received when its target stops or its queue is destroyed. If it was
/// received completely by then, both sides have all of it.
struct Interrupted {
  static constexpr std::uint32_t kBytes = 64 << 20;
  Xrc xrc{-1, {.memory_bytes = kBytes}};
  Interrupted() {
    fill(xrc.sender.memory().first(8), 3);
    EXPECT_EQ(xrc.target.post(5, 0, kBytes), 0);
    EXPECT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get()), kBytes), 0);
    while (difference(xrc.target.endpoint.memory().first(8), 3)) {  // The message has begun now.
    }
  }
};

TEST(Xrc, AMessageThatATargetHasBegunToTakeIsFlushedWithIt) {
  const Interrupted one;
  ibv_qp_attr attributes{.qp_state = IBV_QPS_ERR};
  ASSERT_EQ(ibv_modify_qp(one.xrc.target.qp.get(), &attributes, IBV_QP_STATE), 0);
  const ibv_wc received = one.xrc.target.endpoint.wait();
  const bool came = one.xrc.sender.wait().status == IBV_WC_SUCCESS;
  EXPECT_EQ(received.status, came ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(received.wr_id, 5u);
}

TEST(Xrc, AMessageThatIsComingEndsWithItsQueue) {
  Interrupted one;
  one.xrc.target.srq.reset();
  const bool came = one.xrc.sender.wait().status == IBV_WC_SUCCESS;
  const auto received = one.xrc.target.endpoint.poll(100);  // Or it was dropped with the queue.
  if (came || received) {
    ASSERT_TRUE(received);
    EXPECT_EQ(received->wr_id, 5u);
    EXPECT_EQ(received->status, came ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
  }
}

TEST(Xrc, ATargetStaysUntilTheLastWhoOpenedItLeaves) {
  Xrc xrc;
  ibv_qp_open_attr wanted{};
  wanted.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  wanted.qp_num = xrc.target.qp->qp_num;
  wanted.xrcd = xrc.target.domain.get();
  wanted.qp_type = IBV_QPT_XRC_RECV;
  Owned<ibv_qp> opened(ibv_open_qp(xrc.host.context(), &wanted));
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->qp_num, xrc.target.qp->qp_num);
  xrc.target.qp.reset();
  ASSERT_EQ(xrc.target.post(5, 0, 8), 0);
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(xrc.target.srq.get())), 0);
  ASSERT_OK(xrc.sender.wait());
  opened.reset();
  EXPECT_EQ(ibv_open_qp(xrc.host.context(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/// A second context of the program that has opened the first one's domain by its file: the target
/// queue pair belongs to the first, the shared receive queue and its completion queue to the
/// second.
struct Second {
  explicit Second(int file) : context(open_device()) {
    const LeftBehind on_purpose;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
    ibv_xrcd_init_attr opening{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                               .fd = file,
                               .oflags = O_CREAT};
    ibv_srq_init_attr_ex wanted{};
    wanted.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = pd;
    wanted.xrcd = xrcd = ibv_open_xrcd(context, &opening);
    wanted.cq = cq;
    srq = ibv_create_srq_ex(context, &wanted);
    EXPECT_NE(srq, nullptr) << std::strerror(errno);
  }
  static ibv_context* open_device() {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const opened = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return opened;
  }
  void post_empty() const {
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &request, &bad), 0);
  }

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_xrcd* xrcd;  // Another handle of the domain.
  ibv_srq* srq;
};

TEST(Xrc, AQueueOfAContextThatIsClosedIsGone) {
  TemporaryFile file;
  Xrc xrc(file.fd);
  Second second(file.fd);
  const std::uint32_t number = number_of(second.srq);
  second.post_empty();
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number, 0), 0);
  ASSERT_OK(xrc.sender.wait());
  second.post_empty();
  ibv_srq_attr limit{.max_wr = 0, .max_sge = 0, .srq_limit = 1};
  ASSERT_EQ(ibv_modify_srq(second.srq, &limit, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_close_xrcd(second.xrcd), 0);
  ASSERT_EQ(ibv_close_device(second.context), 0);
  // Taking the request would raise an event in the closed context.
  ASSERT_EQ(xrc.post(IBV_WR_SEND, number, 0), 0);
  EXPECT_EQ(xrc.sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Xrc, ACompletionQueuesErrorGoesToItsOwnContext) {
  TemporaryFile file;
  Xrc xrc(file.fd);
  const Second second(file.fd);
  for (int i = 0; i <= second.cq->cqe; ++i) {
    second.post_empty();
    ASSERT_EQ(xrc.post(IBV_WR_SEND, number_of(second.srq), 0), 0);
    xrc.sender.wait();
  }
  pollfd ready{.fd = second.context->async_fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, 5000), 1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(second.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, second.cq);
  ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_close_xrcd(second.xrcd), 0);
  EXPECT_EQ(ibv_close_device(second.context), 0);
}

TEST(Xrc, ADomainWithUsersStays) {
  OpenDevice host;
  Target target(host);
  EXPECT_EQ(ibv_close_xrcd(target.domain.get()), EBUSY);
}

TEST(Xrc, AFilesDomainIsFoundAgain) {
  OpenDevice host;
  const TemporaryFile file;
  const int fd = file.fd;
  EXPECT_EQ(open_domain(host, fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN) << "there is none yet";
  auto first = open_domain(host, fd);
  ASSERT_NE(first, nullptr);
  const int again = open(file.path, O_RDONLY | O_CLOEXEC);
  auto second = open_domain(host, again, 0);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(open_domain(host, fd, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  first.reset();
  EXPECT_NE(open_domain(host, fd, 0), nullptr) << "the second holds it";
  second.reset();
  EXPECT_EQ(open_domain(host, fd, 0), nullptr);
  close(again);
}

TEST(Xrc, WrongUse) {
  OpenDevice host;
  EXPECT_EQ(open_domain(host, -1, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(open_domain(host, 9999), nullptr);
  EXPECT_EQ(errno, EBADF);
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_create_qp_ex(host.context(), &wanted), nullptr) << "without a domain";
  ibv_srq_init_attr_ex queue{};
  queue.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  queue.srq_type = IBV_SRQT_XRC;
  queue.pd = host.pd();
  EXPECT_EQ(ibv_create_srq_ex(host.context(), &queue), nullptr) << "without a domain";
  queue.srq_type = static_cast<ibv_srq_type>(IBV_SRQT_TM + 1);  // NOLINT: it is to be wrong.
  EXPECT_EQ(ibv_create_srq_ex(host.context(), &queue), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbs_test

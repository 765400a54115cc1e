#include <fcntl.h>

#include "adapter/adapter_test_util.h"

/// XRC between three programs: the requester's, the target queue pair's and the receive queue's.
/// The queue's program holds a proxy of the target (xrc_queue_owners.h).
namespace verbatim::adapter {
namespace {

struct XrcProxy : testing::Test {
  static XrcDomain open_domain(TestNode& node, int fd) {
    return *node.adapter->xrc_domains().open({.fd = fd, .create = true});
  }
  QueuePair* create(TestNode& node, QpType type, XrcDomain in, CompletionQueue* cq) {
    QueuePairOptions options;
    options.type = type;
    options.pd = type == QpType::xrc_send ? node.pd : PdNumber{};
    options.send_cq = cq;
    options.xrc_domain = in;
    options.events = &events;
    options.capacity = {16, 0, 4, 0, 64};
    return *node.adapter->create_queue_pair(options);
  }
  static void connect(QueuePair& queue_pair, TestNode& there, Qpn peer) {
    QueuePairAttributes attributes;
    attributes.state = QpState::init;
    attributes.access = region::kRemoteWrite;
    attributes.port = 1;
    EXPECT_TRUE(queue_pair.modify(attributes, kState | kPKeyIndex | kPort | kAccessFlags));
    attributes.state = QpState::rtr;
    attributes.path_mtu = Mtu::k4096;
    attributes.dest_qpn = peer;
    attributes.max_dest_rd_atomic = 4;
    attributes.min_rnr_timer = 1;
    attributes.address = {.dest_gid = there.adapter->port(1).gids()[1].gid,
                          .source_gid_index = 1,
                          .port = 1,
                          .is_global = true};
    const bool responds = queue_pair.type() == QpType::xrc_receive;
    EXPECT_TRUE(
        queue_pair.modify(attributes, kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn |
                                          (responds ? kMaxDestRdAtomic | kMinRnrTimer : 0u)));
    if (responds) return;
    attributes.state = QpState::rts;
    attributes.timeout = 8;  // A millisecond.
    attributes.retry_count = attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 4;
    EXPECT_TRUE(queue_pair.modify(
        attributes, kState | kSendPsn | kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic));
  }

  XrcProxy() {
    requester_cq = std::move(*a.adapter->create_completion_queue({.capacity = 64}));
    queue_cq = std::move(*c.adapter->create_completion_queue({.capacity = 64}));
    queue = *c.adapter->create_shared_receive_queue({.type = SharedReceiveType::xrc,
                                                     .pd = c.pd,
                                                     .requests = 16,
                                                     .segments = 1,
                                                     .cq = queue_cq.get(),
                                                     .xrc_domain = domain_there});
    requester = create(a, QpType::xrc_send, {}, requester_cq.get());
    target = create(b, QpType::xrc_receive, domain, nullptr);
    connect(*target, a, requester->number());
    connect(*requester, b, target->number());
  }
  ~XrcProxy() override {
    a.adapter->destroy_queue_pair(requester);
    if (target != nullptr) b.adapter->destroy_queue_pair(target);
    EXPECT_TRUE(c.adapter->destroy_shared_receive_queue(queue));
  }

  int send() {
    EXPECT_EQ(0, queue->post_receive(7, {}));
    SendWork work;
    work.request.operation = Operation::send;
    work.request.remote_srq = queue->number();
    work.flags = kPostSignaled;
    return requester->post_send(work);
  }
  bool poll(Completion& entry) { return a.adapter->poll(*requester_cq, std::span(&entry, 1)) == 1; }
  Status next() {
    Completion entry{.status = Status::local_qp_operation_error};
    for (const TimeNs end = monotonic_now() + 5 * kSecond; monotonic_now() < end;) {
      if (poll(entry)) break;
    }
    return entry.status;
  }
  DirectTarget& proxy() {
    const auto peer = a.adapter->peers().find_peer(c.adapter->port().gids()[1].address,
                                                   Qpn(raw(queue->number())));
    return peer->target(kProgramQueuePairsMax);
  }

  AsyncEvents events{*Semaphore::create()};
  TestNode a{1, 1 << 14, TestNode::Path::direct};
  TestNode b{2, 2 << 14, TestNode::Path::direct};
  TestNode c{3, 3 << 14, TestNode::Path::direct};
  UniqueFd file{open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  XrcDomain domain = open_domain(b, file.get());
  XrcDomain domain_there = open_domain(c, file.get());
  std::unique_ptr<CompletionQueue> requester_cq, queue_cq;
  SharedReceiveQueue* queue = nullptr;
  QueuePair* requester = nullptr;
  QueuePair* target = nullptr;
};

TEST_F(XrcProxy, IsNotWaitedForWithoutEnd) {
  ASSERT_EQ(0, send());
  EXPECT_EQ(Status::success, next());
  ASSERT_EQ(proxy().qpn, target->number().value());
  {
    ASSERT_TRUE(proxy().lock.try_lock());
    const TargetLock target_lock(proxy(), std::adopt_lock);
    ASSERT_EQ(0, send());
    Completion entry;
    EXPECT_FALSE(poll(entry));
  }
  EXPECT_EQ(Status::success, next());
}

TEST_F(XrcProxy, HoldsUpNoDestructionAndIsFreedLater) {
  ASSERT_EQ(0, send());
  EXPECT_EQ(Status::success, next());
  const Qpn gone = target->number();
  {
    ASSERT_TRUE(proxy().lock.try_lock());
    const TargetLock target_lock(proxy(), std::adopt_lock);
    b.adapter->destroy_queue_pair(std::exchange(target, nullptr));
    EXPECT_EQ(proxy().qpn, gone.value());
  }
  target = create(b, QpType::xrc_receive, domain, nullptr);
  connect(*target, a, requester->number());
  QueuePairAttributes attributes;
  attributes.state = QpState::reset;
  EXPECT_TRUE(requester->modify(attributes, kState));
  connect(*requester, b, target->number());
  ASSERT_EQ(0, send());
  EXPECT_EQ(Status::success, next());
  EXPECT_EQ(proxy().qpn, target->number().value());
}

}  // namespace
}  // namespace verbatim::adapter

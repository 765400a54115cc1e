#include <cerrno>
#include <map>

#include <fcntl.h>

#include "test_util.h"

/// Queues are as large as they say. A program that adds up the sizes of its queues for a completion
/// queue may fill them all as far as they were granted, and posting until a queue is full overruns
/// nothing.
namespace verbs_test {
namespace {

using Sizes = std::map<std::string, std::uint32_t>;

struct Makers {
  OpenDevice host;
  Endpoint any{host};

  std::uint32_t completions(std::uint32_t wanted) const {
    const Owned<ibv_cq> cq(
        ibv_create_cq(host.context(), static_cast<int>(wanted), nullptr, nullptr, 0));
    return cq == nullptr ? 0 : static_cast<std::uint32_t>(cq->cqe);
  }
  std::uint32_t extended_completions(std::uint32_t wanted) const {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = wanted;
    attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
    const Owned<ibv_cq> cq(ibv_cq_ex_to_cq(ibv_create_cq_ex(host.context(), &attributes)));
    return static_cast<std::uint32_t>(cq->cqe);
  }
  std::uint32_t resized_completions(std::uint32_t wanted) const {
    const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 1, nullptr, nullptr, 0));
    EXPECT_EQ(ibv_resize_cq(cq.get(), static_cast<int>(wanted)), 0);
    return static_cast<std::uint32_t>(cq->cqe);
  }
  ibv_qp_cap queue_pair(std::uint32_t sends, std::uint32_t receives, bool extended) const {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = any.cq();
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = host.pd();
    wanted.cap = {.max_send_wr = sends,
                  .max_recv_wr = receives,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    const Owned<ibv_qp> qp(
        extended ? ibv_create_qp_ex(host.context(), &wanted)
                 : ibv_create_qp(host.pd(), reinterpret_cast<ibv_qp_init_attr*>(&wanted)));
    EXPECT_NE(qp, nullptr) << sends << " " << receives;
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    EXPECT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_CAP, &initial), 0);
    EXPECT_EQ(initial.cap.max_recv_wr, wanted.cap.max_recv_wr);
    EXPECT_EQ(initial.cap.max_send_wr, wanted.cap.max_send_wr);
    return wanted.cap;
  }
  Owned<ibv_srq> shared(ibv_srq_type type, std::uint32_t wanted, ibv_xrcd* domain,
                        std::uint32_t& granted) const {
    ibv_srq_init_attr_ex attributes{};
    attributes.attr = {.max_wr = wanted, .max_sge = 1, .srq_limit = 0};
    attributes.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    attributes.srq_type = type;
    attributes.pd = host.pd();
    attributes.cq = any.cq();
    attributes.xrcd = domain;
    attributes.tm_cap = {.max_num_tags = 4, .max_ops = 4};
    if (type != IBV_SRQT_BASIC) attributes.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    if (type == IBV_SRQT_XRC) attributes.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    if (type == IBV_SRQT_TM) attributes.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
    Owned<ibv_srq> srq(ibv_create_srq_ex(host.context(), &attributes));
    EXPECT_NE(srq, nullptr) << wanted << ": " << std::strerror(errno);
    granted = attributes.attr.max_wr;
    ibv_srq_attr now{};
    EXPECT_EQ(ibv_query_srq(srq.get(), &now), 0);
    EXPECT_EQ(now.max_wr, granted);
    return srq;
  }
  std::uint32_t work_queue(std::uint32_t wanted) const {
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = wanted;
    attributes.max_sge = 1;
    attributes.pd = host.pd();
    attributes.cq = any.cq();
    ibv_wq* const wq = ibv_create_wq(host.context(), &attributes);
    EXPECT_NE(wq, nullptr);
    EXPECT_EQ(ibv_destroy_wq(wq), 0);
    return attributes.max_wr;
  }
};

Owned<ibv_xrcd> open_domain(const OpenDevice& host) {
  ibv_xrcd_init_attr wanted{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  return Owned<ibv_xrcd>(ibv_open_xrcd(host.context(), &wanted));
}

/// What each kind of queue that completes into a completion queue grants.
Sizes granted_queues(const Makers& make, ibv_xrcd* domain, std::uint32_t wanted) {
  Sizes sizes;
  for (const bool extended : {false, true}) {
    const ibv_qp_cap cap = make.queue_pair(wanted, wanted, extended);
    sizes[extended ? "extended sends" : "sends"] = cap.max_send_wr;
    sizes[extended ? "extended receives" : "receives"] = cap.max_recv_wr;
  }
  make.shared(IBV_SRQT_BASIC, wanted, nullptr, sizes["shared receives"]);
  make.shared(IBV_SRQT_XRC, wanted, domain, sizes["XRC receives"]);
  make.shared(IBV_SRQT_TM, wanted, nullptr, sizes["tag matching receives"]);
  sizes["work queue"] = make.work_queue(wanted);
  std::uint32_t resized = 0;
  const auto srq = make.shared(IBV_SRQT_BASIC, 1, nullptr, resized);
  ibv_srq_attr attributes{.max_wr = wanted, .max_sge = 0, .srq_limit = 0};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attributes, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(ibv_query_srq(srq.get(), &attributes), 0);
  sizes["resized shared receives"] = attributes.max_wr;
  return sizes;
}

TEST(QueueSizes, ACompletionQueueHoldsWhatAQueueOfTheSameSizeIsGranted) {
  const Makers make;
  const auto domain = open_domain(make.host);
  for (const std::uint32_t wanted :
       {1u,  2u,  3u,   4u,   7u,   8u,   15u,   16u,   31u,   57u,   60u,    63u,
        64u, 65u, 100u, 127u, 128u, 500u, 1000u, 1024u, 4095u, 4096u, 20'000u}) {
    const Sizes queues = granted_queues(make, domain.get(), wanted);
    const Sizes completions{{"created", make.completions(wanted)},
                            {"extended", make.extended_completions(wanted)},
                            {"resized", make.resized_completions(wanted)}};
    for (const auto& [completing, entries] : completions) {
      EXPECT_GE(entries, wanted) << completing;
      for (const auto& [queue, size] : queues) {
        EXPECT_GE(size, wanted) << queue;
        EXPECT_LE(size, entries) << queue << " of " << wanted << " into " << completing;
      }
    }
    // One for both queues, and one for ten receive queues.
    EXPECT_LE(queues.at("sends") + queues.at("receives"), make.completions(2 * wanted)) << wanted;
    EXPECT_LE(10 * queues.at("receives"), make.completions(10 * wanted)) << wanted;
  }
}

TEST(QueueSizes, NothingIsGrantedAboveTheDevicesLimits) {
  const Makers make;
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(make.host.context(), &device), 0);
  const auto most = static_cast<std::uint32_t>(device.max_qp_wr);
  const ibv_qp_cap cap = make.queue_pair(most, most, false);
  EXPECT_EQ(cap.max_send_wr, most);
  EXPECT_EQ(cap.max_recv_wr, most);
  std::uint32_t granted = 0;
  make.shared(IBV_SRQT_BASIC, static_cast<std::uint32_t>(device.max_srq_wr), nullptr, granted);
  EXPECT_EQ(granted, static_cast<std::uint32_t>(device.max_srq_wr));
}

TEST(QueueSizes, AReceiveQueueTakesWhatItWasGrantedAndNoMore) {
  const Makers make;
  for (const std::uint32_t wanted : {1u, 5u, 64u, 500u}) {
    std::uint32_t granted = 0;
    const auto srq = make.shared(IBV_SRQT_BASIC, wanted, nullptr, granted);
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    std::uint32_t posted = 0;
    while (posted <= granted && ibv_post_srq_recv(srq.get(), &request, &bad) == 0) ++posted;
    EXPECT_EQ(posted, granted) << "shared, " << wanted;

    const Endpoint end(make.host, {.receives = wanted});
    end.to_init();
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    ASSERT_EQ(ibv_query_qp(end.qp(), &attributes, IBV_QP_CAP, &initial), 0);
    posted = 0;
    while (posted <= initial.cap.max_recv_wr && end.receive(1, 0, 8) == 0) ++posted;
    EXPECT_EQ(posted, initial.cap.max_recv_wr) << "own, " << wanted;
  }
}

/// As UCX does with a shared receive queue and a completion queue of one size.
TEST(QueueSizes, AllReceivesOfASharedQueueFitTheCompletionQueueBesideIt) {
  constexpr std::uint32_t kWanted = 300;
  const OpenDevice host;
  ibv_srq_init_attr wanted{.srq_context = nullptr,
                           .attr = {.max_wr = kWanted, .max_sge = 1, .srq_limit = 0}};
  const Owned<ibv_srq> srq(ibv_create_srq(host.pd(), &wanted));
  const Endpoint a(host);
  const Endpoint b(host, {.completions = kWanted, .srq = srq.get()});
  a.connect(b.address());
  b.connect(a.address());
  ibv_sge segment = b.segment(0, 8);
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  for (std::uint32_t i = 0; i < wanted.attr.max_wr; ++i) {
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &receive, &bad), 0) << i;
  }
  for (std::uint32_t i = 0; i < wanted.attr.max_wr; ++i) {
    ASSERT_EQ(a.post(IBV_WR_SEND, i, 0, 8), 0);
    ASSERT_OK(a.wait());
  }
  for (std::uint32_t i = 0; i < wanted.attr.max_wr; ++i) ASSERT_OK(b.wait());
}

/// Posts signaled requests until the queue is full; returns their number.
std::uint32_t fill_queue(const Endpoint& from, const std::function<int()>& post) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  EXPECT_EQ(ibv_query_qp(from.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  std::uint32_t posted = 0;
  int error = 0;
  while (posted <= initial.cap.max_send_wr && (error = post()) == 0) ++posted;
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(posted, initial.cap.max_send_wr);
  return posted;
}

/// A place is free when its completion, or a later one, has been polled.
void expect_back_pressure(const Endpoint& a, const Address& peer) {
  const auto write = [&] { return a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(peer)); };
  for (int round = 0; round < 5; ++round) {
    const std::uint32_t places = fill_queue(a, write);
    ASSERT_OK(a.wait());
    EXPECT_EQ(write(), 0);
    EXPECT_EQ(write(), ENOMEM) << "one was polled, one was posted";
    for (std::uint32_t i = 0; i < places; ++i) ASSERT_OK(a.wait());
  }
}

TEST(SendQueue, APlaceIsTakenUntilItsCompletionIsPolled) {
  const Pair pair({.completions = 16});
  expect_back_pressure(pair.a, pair.b.address());
}

TEST(SendQueue, APlaceIsTakenUntilItsCompletionIsPolledBesideAnotherProgram) {
  OtherNode other([](const Pipe& pipe) {
    const OpenDevice host;
    const Endpoint end(host);
    end.connect(pipe.exchange(end.address()));
    pipe.send(true);
    static_cast<void>(pipe.receive<bool>());  // Its background thread answers meanwhile.
  });
  const OpenDevice host;
  const Endpoint a(host, {.completions = 16});
  const Address peer = other.pipe().exchange(a.address());
  a.connect(peer);
  ASSERT_TRUE(other.pipe().receive<bool>());
  expect_back_pressure(a, peer);
  other.pipe().send(true);
}

TEST(SendQueue, RequestsWithoutCompletionWaitForALaterOne) {
  const Pair pair({.sends = 4});
  const auto write = [&](bool signaled) {
    return pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, [&](ibv_send_wr& request) {
      to(pair.b)(request);
      if (!signaled) request.send_flags = 0;
    });
  };
  for (int round = 0; round < 3; ++round) {
    for (const bool signaled : {false, false, true, false}) ASSERT_EQ(write(signaled), 0);
    EXPECT_EQ(write(true), ENOMEM);
    ASSERT_OK(pair.a.wait());
    for (const bool signaled : {false, false, true}) ASSERT_EQ(write(signaled), 0);
    EXPECT_EQ(write(true), ENOMEM);
    ASSERT_OK(pair.a.wait());
    ASSERT_EQ(write(true), 0);
    ASSERT_OK(pair.a.wait());
  }
}

TEST(SendQueue, EachServiceKeepsItsPlaces) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    const OpenDevice host;
    const Endpoint a(host, {.type = type, .completions = 16});
    const Endpoint b(host, {.type = type});
    a.connect(b.address());
    b.connect(a.address());
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = 1;
    attributes.grh = {
        .dgid = host.gid(1), .flow_label = 0, .sgid_index = 1, .hop_limit = 1, .traffic_class = 0};
    const Owned<ibv_ah> handle(ibv_create_ah(host.pd(), &attributes));
    const auto send = [&] {
      if (type != IBV_QPT_UD) return a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(b));
      return a.post(IBV_WR_SEND, 1, 0, 8, [&](ibv_send_wr& request) {
        request.wr.ud = {.ah = handle.get(), .remote_qpn = b.qp()->qp_num, .remote_qkey = kQKey};
      });
    };
    for (int round = 0; round < 3; ++round) {
      const std::uint32_t places = fill_queue(a, send);
      for (std::uint32_t i = 0; i < places; ++i) ASSERT_OK(a.wait());
    }
  }
}

TEST(SendQueue, ErrorsAndResetGivePlacesBack) {
  const Pair pair({.completions = 16});
  const auto write = [&] { return pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(pair.b)); };
  const std::uint32_t places = fill_queue(pair.a, write);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(write(), ENOMEM);
  for (std::uint32_t i = 0; i < places; ++i) static_cast<void>(pair.a.wait());
  EXPECT_EQ(write(), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_EQ(pair.b.modify_state(IBV_QPS_RESET), 0);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  fill_queue(pair.a, write);
  ASSERT_EQ(pair.a.modify_state(IBV_QPS_RESET), 0);  // Its completions vanish with its requests.
  ASSERT_EQ(pair.b.modify_state(IBV_QPS_RESET), 0);
  pair.a.connect(pair.b.address());
  pair.b.connect(pair.a.address());
  EXPECT_EQ(fill_queue(pair.a, write), places);
}

}  // namespace
}  // namespace verbs_test

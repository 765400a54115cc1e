#include <cerrno>
#include <ctime>
#include <thread>

#include "test_util.h"

/// Extended completion queues, and resizing of both kinds.
namespace verbs_test {
namespace {

struct Delete {
  void operator()(ibv_cq_ex* cq) const { EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0); }
};
using OwnedCq = std::unique_ptr<ibv_cq_ex, Delete>;

OwnedCq create(const OpenDevice& host, std::uint64_t fields, std::uint32_t flags = 0,
               std::uint32_t entries = 16) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = entries;
  wanted.wc_flags = fields;
  wanted.comp_mask = flags != 0 ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0;
  wanted.flags = flags;
  return OwnedCq(ibv_create_cq_ex(host.context(), &wanted));
}

/// A queue pair connected to itself; its completions go to `cq`.
class Loop {
 public:
  explicit Loop(ibv_cq_ex* cq, const OpenDevice& host) : endpoint_(host, with(cq)) {
    endpoint_.connect(endpoint_.address());
  }
  const Endpoint& operator*() const { return endpoint_; }
  const Endpoint* operator->() const { return &endpoint_; }

 private:
  static EndpointOptions with(ibv_cq_ex* cq) {
    EndpointOptions options;
    options.shared_cq = ibv_cq_ex_to_cq(cq);
    return options;
  }
  Endpoint endpoint_;
};

/// Calls start_poll, and waits at most ten seconds for the first entry.
void start(ibv_cq_ex* cq) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  ibv_poll_cq_attr attributes{};
  int found = ENOENT;
  while ((found = ibv_start_poll(cq, &attributes)) == ENOENT) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
  }
  ASSERT_EQ(found, 0);
}

std::uint64_t wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

TEST(ExtendedPoll, EveryFieldIsRead) {
  const OpenDevice host;
  constexpr std::uint64_t kTimes =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const OwnedCq cq = create(host, std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimes);
  ASSERT_NE(cq, nullptr);
  const Loop loop(cq.get(), host);
  const std::uint64_t before = wall_clock();
  ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
  ASSERT_EQ(ibv_query_rt_values_ex(host.context(), &values), 0);
  ASSERT_EQ(loop->receive(1, 0, 64), 0);
  ASSERT_EQ(loop->post(IBV_WR_SEND_WITH_IMM, 2, 128, 24,
                       [](ibv_send_wr& request) { request.imm_data = 77; }),
            0);
  start(cq.get());
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(cq->wr_id, 1u);
  EXPECT_EQ(ibv_wc_read_opcode(cq.get()), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(cq.get()), 24u);
  EXPECT_EQ(ibv_wc_read_imm_data(cq.get()), 77u);
  EXPECT_EQ(ibv_wc_read_wc_flags(cq.get()), unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ibv_wc_read_qp_num(cq.get()), loop->qp()->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(cq.get()), loop->qp()->qp_num);
  EXPECT_EQ(ibv_wc_read_slid(cq.get()), 0u);
  EXPECT_EQ(ibv_wc_read_sl(cq.get()), 0u);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq.get()), 0u);
  EXPECT_EQ(ibv_wc_read_vendor_err(cq.get()), 0u);
  EXPECT_GE(ibv_wc_read_completion_ts(cq.get()),
            static_cast<std::uint64_t>(values.raw_clock.tv_nsec));
  // The two clocks are not read at the same instant.
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(cq.get()) + 1'000'000, before);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(cq.get()), wall_clock() + 1'000'000);
  ibv_end_poll(cq.get());
  start(cq.get());
  EXPECT_EQ(cq->wr_id, 2u);
  EXPECT_EQ(ibv_next_poll(cq.get()), ENOENT);
  ibv_end_poll(cq.get());
}

TEST(ExtendedPoll, BothStylesTakeFromTheSameQueue) {
  const OpenDevice host;
  const OwnedCq cq = create(host, IBV_WC_STANDARD_FLAGS);
  const Loop loop(cq.get(), host);
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(loop->post(IBV_WR_RDMA_WRITE, id, 0, 8, to(*loop, 64)), 0);
    EXPECT_EQ(loop->wait().wr_id, id);
    ASSERT_EQ(loop->post(IBV_WR_RDMA_WRITE, 100 + id, 0, 8, to(*loop, 64)), 0);
    start(cq.get());
    EXPECT_EQ(cq->wr_id, 100 + id);
    ibv_end_poll(cq.get());
  }
}

TEST(ExtendedPoll, TwoThreadsTakeEachEntryOnce) {
  const OpenDevice host;
  const OwnedCq cq = create(host, IBV_WC_STANDARD_FLAGS, 0, 256);
  const Loop loop(cq.get(), host);
  constexpr std::uint64_t kEach = 200;
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> sum{0};
  const auto poll = [&] {
    ibv_poll_cq_attr attributes{};
    while (taken < kEach) {
      if (ibv_start_poll(cq.get(), &attributes) != 0) continue;
      do {
        sum += cq->wr_id;
        ++taken;
      } while (ibv_next_poll(cq.get()) == 0);
      ibv_end_poll(cq.get());
    }
  };
  {
    const std::jthread one(poll);
    const std::jthread two(poll);
    for (std::uint64_t id = 0; id < kEach; ++id) {
      while (loop->post(IBV_WR_RDMA_WRITE, id, 0, 8, to(*loop, 64)) != 0) std::this_thread::yield();
    }
  }
  EXPECT_EQ(taken, kEach);
  EXPECT_EQ(sum, kEach * (kEach - 1) / 2);
}

TEST(ExtendedCompletionQueue, WhatIsNotServedIsRefused) {
  const OpenDevice host;
  errno = 0;
  EXPECT_EQ(create(host, IBV_WC_EX_WITH_CVLAN), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(create(host, 0, 1u << 31), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(create(host, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const OwnedCq cq = create(host, 0);
  ibv_poll_cq_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(cq.get(), &unknown), EINVAL);
}

TEST(ExtendedCompletionQueue, OverrunThatIsIgnoredRaisesNoEvent) {
  const OpenDevice host;
  const OwnedCq cq =
      create(host, 0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED, 4);
  const Loop loop(cq.get(), host);
  for (std::uint64_t id = 0; id < 12; ++id) {
    ASSERT_EQ(loop->post(IBV_WR_RDMA_WRITE, id, 0, 8, to(*loop, 64)), 0);
  }
  std::uint64_t last = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (last != 11 && std::chrono::steady_clock::now() < limit) {
    // The adapter makes progress by itself.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(cq.get(), &attributes) != 0) continue;
    do {
      last = cq->wr_id;
    } while (ibv_next_poll(cq.get()) == 0);
    ibv_end_poll(cq.get());
  }
  EXPECT_EQ(last, 11u);
  EXPECT_EQ(loop->state(), IBV_QPS_RTS);
}

TEST(CompletionQueue, ResizesDownToWhatIsInIt) {
  const Pair pair;
  for (std::uint64_t id = 0; id < 8; ++id) {
    ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, id, 0, 8, to(pair.b)), 0);
  }
  // Waits until all have completed, without taking one.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ibv_resize_cq(pair.a.cq(), 7) != EINVAL) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit);
    static_cast<void>(pair.b.poll());
  }
  EXPECT_EQ(ibv_resize_cq(pair.a.cq(), 0), EINVAL);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq(), 8), 0);
  EXPECT_GE(pair.a.cq()->cqe, 8);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq(), 1000), 0);
  EXPECT_GE(pair.a.cq()->cqe, 1000);
  for (std::uint64_t id = 0; id < 8; ++id) EXPECT_EQ(pair.a.wait().wr_id, id);
}

}  // namespace
}  // namespace verbs_test

#include <cerrno>
#include <thread>

#include "test_util.h"

/// Extended queue pairs: the `ibv_wr_*` calls post all requests of a batch, or none.
namespace verbs_test {
namespace {

constexpr std::uint64_t kAllOfRc = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

EndpointOptions extended(ibv_qp_type type = IBV_QPT_RC, std::uint64_t operations = kAllOfRc) {
  EndpointOptions options;
  options.type = type;
  options.send_operations = operations;
  return options;
}

void next(ibv_qp_ex* qp, std::uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
  qp->wr_id = wr_id;
  qp->wr_flags = flags;
}

TEST(ExtendedPost, OneBatchCarriesEveryOperation) {
  const Pair pair(extended());
  fill(pair.a.memory().first(64), 1);
  ASSERT_EQ(pair.b.receive(100, 1024, 64), 0);
  ASSERT_EQ(pair.b.receive(101, 1024, 64), 0);
  const std::uint32_t rkey = pair.b.mr()->rkey;
  ibv_qp_ex* const qp = pair.a.qp_ex();
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  next(qp, 1);
  ibv_wr_rdma_write(qp, rkey, pair.b.at(0));
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(0), 64);
  next(qp, 2);
  ibv_wr_rdma_write_imm(qp, rkey, pair.b.at(64), 7);
  const ibv_sge list[] = {pair.a.segment(0, 8), pair.a.segment(8, 8)};
  ibv_wr_set_sge_list(qp, 2, list);
  next(qp, 3);
  ibv_wr_send_imm(qp, 8);
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(0), 64);
  next(qp, 4);
  ibv_wr_rdma_read(qp, rkey, pair.b.at(0));
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(4096), 64);
  next(qp, 5);
  ibv_wr_atomic_fetch_add(qp, rkey, pair.b.at(2048), 5);
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(5120), 8);
  next(qp, 6);
  ibv_wr_atomic_cmp_swp(qp, rkey, pair.b.at(2048), 5, 9);
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(5128), 8);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (std::uint64_t wr_id = 1; wr_id <= 6; ++wr_id) {
    const ibv_wc sent = pair.a.wait();
    ASSERT_OK(sent);
    EXPECT_EQ(sent.wr_id, wr_id);
  }
  EXPECT_EQ(pair.b.wait().imm_data, 7u);
  EXPECT_EQ(pair.b.wait().imm_data, 8u);
  EXPECT_EQ(difference(pair.b.memory().first(64), 1), std::nullopt);
  EXPECT_EQ(difference(pair.a.memory().subspan(4096, 64), 1), std::nullopt);
  EXPECT_EQ(std::to_integer<int>(pair.b.memory()[2048]), 9);
  EXPECT_EQ(std::to_integer<int>(pair.a.memory()[5128]), 5);
}

TEST(ExtendedPost, InlineDataIsTakenAtOnce) {
  const Pair pair(extended());
  ASSERT_EQ(pair.b.receive(100, 0, 64), 0);
  ASSERT_EQ(pair.b.receive(101, 64, 64), 0);
  ibv_qp_ex* const qp = pair.a.qp_ex();
  char text[] = "gone";
  char more[] = "!";
  ibv_wr_start(qp);
  next(qp, 1);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, text, 4);
  std::memcpy(text, "away", 4);
  next(qp, 2);
  ibv_wr_send(qp);
  const ibv_data_buf list[] = {{.addr = text, .length = 4}, {.addr = more, .length = 1}};
  ibv_wr_set_inline_data_list(qp, 2, list);
  std::memset(text, 0, 4);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ASSERT_OK(pair.b.wait());
  ASSERT_OK(pair.b.wait());
  EXPECT_EQ(std::memcmp(pair.b.memory().data(), "gone", 4), 0);
  EXPECT_EQ(std::memcmp(pair.b.memory().data() + 64, "away!", 5), 0);
}

TEST(ExtendedPost, DatagramsGoWhereTheyAreAddressed) {
  const Pair pair(extended(IBV_QPT_UD, IBV_QP_EX_WITH_SEND));
  ASSERT_EQ(pair.b.receive(100, 0, 128), 0);
  ibv_ah_attr vector{};
  vector.is_global = 1;
  vector.port_num = 1;
  vector.grh.sgid_index = 1;
  vector.grh.dgid = pair.host.gid(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pair.host.pd(), &vector));
  ibv_qp_ex* const qp = pair.a.qp_ex();
  fill(pair.a.memory().first(32), 3);
  ibv_wr_start(qp);
  next(qp, 1);
  ibv_wr_send(qp);
  ibv_wr_set_ud_addr(qp, ah.get(), pair.b.qp()->qp_num, kQKey);
  ibv_wr_set_sge(qp, pair.a.mr()->lkey, pair.a.at(0), 32);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ASSERT_OK(pair.b.wait());
  EXPECT_EQ(difference(pair.b.memory().subspan(40, 32), 3), std::nullopt);
}

TEST(ExtendedPost, AbortLeavesNoTrace) {
  const Pair pair(extended());
  ibv_qp_ex* const qp = pair.a.qp_ex();
  ASSERT_EQ(pair.b.receive(100, 0, 64), 0);
  ibv_wr_start(qp);
  next(qp, 1);
  ibv_wr_send_imm(qp, 1);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  next(qp, 2);
  ibv_wr_send_imm(qp, 2);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 2u);
  EXPECT_EQ(pair.b.wait().imm_data, 2u);
}

TEST(ExtendedPost, OneBadRequestAndNoneIsPosted) {
  const Pair pair(extended(IBV_QPT_RC, IBV_QP_EX_WITH_SEND));
  ibv_qp_ex* const qp = pair.a.qp_ex();
  ASSERT_EQ(pair.b.receive(100, 0, 64), 0);
  const auto attempt = [&](const std::function<void()>& bad) {
    ibv_wr_start(qp);
    next(qp, 1);
    ibv_wr_send(qp);
    bad();
    return ibv_wr_complete(qp);
  };
  const ibv_sge many[5] = {};
  char bytes[4096];
  EXPECT_EQ(attempt([&] { ibv_wr_set_sge_list(qp, 5, many); }), EINVAL);
  EXPECT_EQ(attempt([&] { ibv_wr_set_inline_data(qp, bytes, sizeof bytes); }), EINVAL);
  EXPECT_EQ(attempt([&] { ibv_wr_rdma_read(qp, 1, 1); }), EINVAL);  // Not in send_ops_flags.
  EXPECT_EQ(attempt([&] {
              for (int i = 0; i < 16; ++i) ibv_wr_send(qp);
            }),
            ENOMEM);
  ibv_wr_start(qp);
  ibv_wr_set_sge(qp, 0, 0, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_FALSE(pair.a.poll(100));
  EXPECT_FALSE(pair.b.poll(100));
  EXPECT_EQ(attempt([] {}), 0);
  ASSERT_OK(pair.b.wait());
}

/// One thread owns the queue pair from start to complete.
TEST(ExtendedPost, BatchesOfTwoThreadsDoNotMix) {
  EndpointOptions options = extended();
  options.receives = options.sends = 64;
  options.completions = 256;
  const Pair pair(options);
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(pair.b.receive(i, 0, 0), 0);
  const auto post = [qp = pair.a.qp_ex()](std::uint32_t mark) {
    for (int batch = 0; batch < 8; ++batch) {
      ibv_wr_start(qp);
      for (std::uint32_t i = 0; i < 4; ++i) {
        next(qp, mark);
        std::this_thread::yield();
        ibv_wr_send_imm(qp, mark + i);
      }
      ASSERT_EQ(ibv_wr_complete(qp), 0);
    }
  };
  {
    const std::jthread one([&] { post(0); });
    const std::jthread two([&] { post(100); });
  }
  for (int batch = 0; batch < 16; ++batch) {
    const std::uint32_t first = pair.b.wait().imm_data;
    ASSERT_TRUE(first == 0 || first == 100) << first;
    for (std::uint32_t i = 1; i < 4; ++i) EXPECT_EQ(pair.b.wait().imm_data, first + i);
  }
}

TEST(ExtendedQueuePair, OperationsThatATypeDoesNotServeAreRefused) {
  const OpenDevice host;
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 16, nullptr, nullptr, 0));
  const auto create = [&](ibv_qp_type type, std::uint64_t operations,
                          std::uint32_t more_mask = 0) -> int {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.qp_type = type;
    wanted.cap = {1, 1, 1, 1, 0};
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | more_mask;
    wanted.pd = host.pd();
    wanted.create_flags = more_mask == IBV_QP_INIT_ATTR_CREATE_FLAGS ? IBV_QP_CREATE_SOURCE_QPN : 0;
    wanted.send_ops_flags = operations;
    const Owned<ibv_qp> qp(ibv_create_qp_ex(host.context(), &wanted));
    return qp != nullptr ? 0 : errno;
  };
  EXPECT_EQ(create(IBV_QPT_RC, kAllOfRc), 0);
  EXPECT_EQ(create(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE), 0);
  EXPECT_EQ(create(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, std::uint64_t{1} << 40), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_SEND, 1u << 30), EOPNOTSUPP);
  EXPECT_EQ(create(IBV_QPT_RC, IBV_QP_EX_WITH_SEND, IBV_QP_INIT_ATTR_CREATE_FLAGS), EOPNOTSUPP);
}

TEST(ExtendedQueuePair, PlainOneIsNone) {
  const Pair pair;
  EXPECT_EQ(pair.a.qp_ex(), nullptr);
}

}  // namespace
}  // namespace verbs_test

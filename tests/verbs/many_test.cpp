#include <cstdio>

#include <unistd.h>

#include "test_util.h"

/// Many queue pairs in one program.
namespace verbs_test {
namespace {

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%zu %zu", &total, &resident), 2);
  std::fclose(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(ManyQueuePairs, AThousandWorkAndCostLittle) {
  constexpr std::size_t kPairs = 500;
  const OpenDevice host;
  const Endpoint ends(host,
                      {.completions = 4096});  // Only its memory and completion queue are used.
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = ends.cq();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 128,
                .max_recv_wr = 128,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  const std::size_t before = resident_bytes();
  std::vector<Owned<ibv_qp>> all;
  const auto transition = [](ibv_qp* qp, ibv_qp_attr attributes, int mask) {
    ASSERT_EQ(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | mask), 0);
  };
  for (std::size_t i = 0; i < 2 * kPairs; ++i) {
    all.emplace_back(ibv_create_qp(host.pd(), &wanted));
    ASSERT_NE(all.back(), nullptr);
  }
  for (std::size_t i = 0; i < 2 * kPairs; ++i) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    transition(all[i].get(), attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = all[i ^ 1]->qp_num;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.dgid = host.gid(1);
    attributes.ah_attr.grh.sgid_index = 1;
    transition(all[i].get(), attributes,
               IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = attributes.rnr_retry = 7;
    transition(all[i].get(), attributes,
               IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_MAX_QP_RD_ATOMIC);
  }
  ibv_sge segment = ends.segment(0, 32);
  for (std::size_t i = 0; i < 2 * kPairs; i += 2) {
    ibv_recv_wr receive{.wr_id = i, .next = nullptr, .sg_list = &segment, .num_sge = 1};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(all[i].get(), &receive, &bad_receive), 0);
    ibv_send_wr send{};
    send.wr_id = i + 1;
    send.sg_list = &segment;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(all[i + 1].get(), &send, &bad_send), 0);
  }
  std::vector<bool> done(2 * kPairs);
  for (std::size_t i = 0; i < 2 * kPairs; ++i) {
    const ibv_wc completion = ends.wait();
    ASSERT_OK(completion);
    EXPECT_FALSE(done[completion.wr_id]);
    done[completion.wr_id] = true;
  }
  const std::size_t each = (resident_bytes() - before) / (2 * kPairs);
  RecordProperty("bytes_each", static_cast<int>(each));
  EXPECT_LT(each, 64u << 10);
}

}  // namespace
}  // namespace verbs_test

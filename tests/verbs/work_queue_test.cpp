#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <unistd.h>

#include "test_util.h"

/// Work queues, indirection tables and queue pairs with receive-side scaling.
namespace verbs_test {
namespace {

struct DestroyWorkQueue {
  void operator()(ibv_wq* wq) const { EXPECT_EQ(ibv_destroy_wq(wq), 0); }
};
using WorkQueue = std::unique_ptr<ibv_wq, DestroyWorkQueue>;
struct DestroyTable {
  void operator()(ibv_rwq_ind_table* table) const {
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
  }
};
using Table = std::unique_ptr<ibv_rwq_ind_table, DestroyTable>;

constexpr std::size_t kFrameBytes = 34;

struct Scaling : testing::Test {
  WorkQueue make_queue(const Endpoint& cq_of, std::uint32_t requests = 64) const {
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = requests;
    attributes.max_sge = 1;
    attributes.pd = host.pd();
    attributes.cq = cq_of.cq();
    return WorkQueue(ibv_create_wq(host.context(), &attributes));
  }
  static int to_state(ibv_wq* wq, ibv_wq_state state) {
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_STATE;
    attributes.wq_state = state;
    return ibv_modify_wq(wq, &attributes);
  }
  static int receive(ibv_wq* wq, const Endpoint& memory, std::size_t offset, std::uint32_t length) {
    ibv_sge segment = memory.segment(offset, length);
    ibv_recv_wr request{.wr_id = offset, .next = nullptr, .sg_list = &segment, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_wq_recv(wq, &request, &bad);
  }
  Table make_table(std::vector<ibv_wq*> queues) const {
    ibv_rwq_ind_table_init_attr attributes{};
    attributes.ind_tbl = queues.data();
    while (1u << attributes.log_ind_tbl_size < queues.size()) ++attributes.log_ind_tbl_size;
    return Table(ibv_create_rwq_ind_table(host.context(), &attributes));
  }
  ibv_qp_init_attr_ex scaling(ibv_rwq_ind_table* table) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.comp_mask =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
    attributes.pd = host.pd();
    attributes.rwq_ind_tbl = table;
    attributes.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                               .rx_hash_key_len = static_cast<std::uint8_t>(key.size()),
                               .rx_hash_key = key.data(),
                               .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4};
    return attributes;
  }

  OpenDevice host;
  Endpoint first{host, {.type = IBV_QPT_RAW_PACKET}};
  Endpoint second{host, {.type = IBV_QPT_RAW_PACKET}};
  std::array<std::uint8_t, 40> key{0x2c, 0xc6, 0x81, 0xd1, 0x5b, 0xdb, 0xf4, 0xf7};
};

/// Writes an IPv4 header to a group that only this process uses; its last source byte varies.
void write_frame(const Endpoint& end, std::uint8_t source) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  auto* const bytes = reinterpret_cast<std::uint8_t*>(end.memory().data());
  std::memset(bytes, 0, kFrameBytes);
  const std::uint8_t group[] = {3,
                                0xef,
                                static_cast<std::uint8_t>(pid >> 16),
                                static_cast<std::uint8_t>(pid >> 8),
                                static_cast<std::uint8_t>(pid),
                                1};
  std::memcpy(bytes, group, sizeof group);
  bytes[12] = 0x08;
  bytes[14] = 0x45;
  bytes[17] = 20;
  bytes[29] = source;
}

TEST_F(Scaling, FramesSpreadByTheirHash) {
  const WorkQueue a = make_queue(first);
  const WorkQueue b = make_queue(second);
  for (ibv_wq* wq : {a.get(), b.get()}) {
    ASSERT_EQ(to_state(wq, IBV_WQS_RDY), 0);
    for (std::size_t i = 0; i < 32; ++i) ASSERT_EQ(receive(wq, first, 1024 + 64 * i, 64), 0);
  }
  const Table table = make_table({a.get(), b.get(), a.get(), b.get()});
  ibv_qp_init_attr_ex attributes = scaling(table.get());
  const Owned<ibv_qp> qp(ibv_create_qp_ex(host.context(), &attributes));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_destroy_wq(a.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table.get()), EBUSY);

  struct {
    ibv_flow_attr attributes;
    ibv_flow_spec_eth ethernet;
  } rule{};
  rule.attributes = {.comp_mask = 0,
                     .type = IBV_FLOW_ATTR_NORMAL,
                     .size = sizeof rule,
                     .priority = 0,
                     .num_of_specs = 1,
                     .port = 1,
                     .flags = 0};
  rule.ethernet.type = IBV_FLOW_SPEC_ETH;
  rule.ethernet.size = sizeof rule.ethernet;
  write_frame(first, 0);
  std::memcpy(rule.ethernet.val.dst_mac, first.memory().data(), 6);
  std::memset(rule.ethernet.mask.dst_mac, 0xff, 6);
  ibv_flow* const flow = ibv_create_flow(qp.get(), &rule.attributes);
  ASSERT_NE(flow, nullptr);

  const Endpoint sender(host, {.type = IBV_QPT_RAW_PACKET});
  sender.connect({});
  std::array<int, 2> received{};
  for (std::uint8_t source = 0; source < 32; ++source) {
    write_frame(sender, source);
    ASSERT_EQ(sender.post(IBV_WR_SEND, 1, 0, kFrameBytes), 0);
    ASSERT_OK(sender.wait());
  }
  while (received[0] + received[1] < 32) {
    if (const auto entry = first.poll(20)) {
      ASSERT_OK(*entry);
      EXPECT_EQ(entry->qp_num, a->wq_num);
      ++received[0];
    }
    if (const auto entry = second.poll(20)) {
      ASSERT_OK(*entry);
      EXPECT_EQ(entry->qp_num, b->wq_num);
      ++received[1];
    }
  }
  EXPECT_GT(received[0], 0);
  EXPECT_GT(received[1], 0);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(Scaling, WorkQueueStates) {
  const WorkQueue wq = make_queue(first);
  EXPECT_EQ(receive(wq.get(), first, 0, 64), EINVAL);
  EXPECT_EQ(to_state(wq.get(), IBV_WQS_ERR), EINVAL);
  ASSERT_EQ(to_state(wq.get(), IBV_WQS_RDY), 0);
  ASSERT_EQ(receive(wq.get(), first, 0, 64), 0);
  ASSERT_EQ(to_state(wq.get(), IBV_WQS_ERR), 0);
  EXPECT_EQ(first.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(to_state(wq.get(), IBV_WQS_RDY), EINVAL);
  EXPECT_EQ(to_state(wq.get(), IBV_WQS_RESET), 0);
  EXPECT_EQ(wq->state, IBV_WQS_RESET);
}

TEST_F(Scaling, FullWorkQueue) {
  const WorkQueue wq = make_queue(first, 4);
  ASSERT_EQ(to_state(wq.get(), IBV_WQS_RDY), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(receive(wq.get(), first, 0, 64), 0);
  EXPECT_EQ(receive(wq.get(), first, 0, 64), ENOMEM);
}

TEST_F(Scaling, WrongQueuePairsAreRefused) {
  const WorkQueue wq = make_queue(first);
  const Table table = make_table({wq.get()});
  const auto refused = [&](const auto& change) {
    ibv_qp_init_attr_ex attributes = scaling(table.get());
    change(attributes);
    errno = 0;
    const Owned<ibv_qp> qp(ibv_create_qp_ex(host.context(), &attributes));
    EXPECT_EQ(qp, nullptr);
    return errno;
  };
  using Attributes = ibv_qp_init_attr_ex;
  EXPECT_EQ(refused([](Attributes& qp) { qp.rx_hash_conf.rx_hash_key_len = 39; }), EINVAL);
  EXPECT_EQ(refused([](Attributes& qp) { qp.rx_hash_conf.rx_hash_function = 2; }), EINVAL);
  EXPECT_EQ(refused([](Attributes& qp) { qp.rx_hash_conf.rx_hash_fields_mask = 1 << 20; }), EINVAL);
  EXPECT_EQ(refused([](Attributes& qp) { qp.comp_mask &= ~IBV_QP_INIT_ATTR_RX_HASH; }), EINVAL);
  EXPECT_EQ(refused([](Attributes& qp) { qp.cap.max_send_wr = 1; }), EINVAL);
  EXPECT_EQ(refused([](Attributes& qp) { qp.qp_type = IBV_QPT_UD; }), EOPNOTSUPP);
}

TEST_F(Scaling, QueuePairThatScalesOnlyReceivesIntoItsQueues) {
  const WorkQueue wq = make_queue(first);
  const Table table = make_table({wq.get()});
  ibv_qp_init_attr_ex attributes = scaling(table.get());
  const Owned<ibv_qp> qp(ibv_create_qp_ex(host.context(), &attributes));
  ASSERT_NE(qp, nullptr);
  ibv_sge segment = first.segment(0, 64);
  ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad_receive), EINVAL);
  ibv_send_wr send{};
  send.sg_list = &segment;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp.get(), &send, &bad_send), EINVAL);
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &state, IBV_QP_STATE), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbs_test

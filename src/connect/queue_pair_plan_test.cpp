#include "connect/queue_pair_plan.h"

#include <algorithm>
#include <iterator>

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

namespace verbatim::connect {
namespace {

QueuePairPlan plan() {
  const SocketAddress peer = SocketAddress::ipv4({10, 0, 0, 2});
  QueuePairPlan plan;
  plan.path = {.remote = roce_path(peer),
               .remote_gid = gid_of(peer),
               .mtu = Mtu::k4096,
               .service_level = 3,
               .traffic_class = 104,
               .flow_label = 0x12345,
               .hop_limit = 63,
               .ack_timeout = 19};
  plan.peer = {.qpn = Qpn(0x4711), .starting_psn = Psn(0xabc)};
  plan.own_psn = Psn(0xdef);
  plan.responder_resources = 8;
  plan.initiator_depth = 4;
  plan.retry_count = 5;
  plan.rnr_retry_count = 6;
  return plan;
}

constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kReads = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRts = IBV_QP_STATE | IBV_QP_SQ_PSN;
constexpr int kRetries =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

int mask_of(ibv_qp_type type, ibv_qp_state state, ibv_qp_attr& attributes) {
  return attributes_for(plan(), type, 2, state, attributes).value();
}

/// The values of Linux's `cm_ack_timeout`.
TEST(QueuePairPlan, AckTimeoutIsOfTheDeviceAndTheWayThereAndBack) {
  struct Row {
    int ack_delay, packet_life_time, timeout;
  };
  constexpr Row kRows[] = {
      {15, 0, 15},   // Both ends on one port of a fabric's host.
      {15, 12, 15},  // The way takes a quarter of the delay.
      {15, 13, 16},  // Half of it.
      {15, 14, 16},  // As long.
      {15, 15, 17},  // Twice.
      {15, 16, 17},  // RoCE: four times.
      {16, 16, 18}, {0, 18, 19}, {0, 0, 2}, {0, 1, 2}, {31, 31, 31}, {0, 31, 31}, {31, 0, 31},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(ack_timeout_of(static_cast<std::uint8_t>(row.ack_delay),
                             static_cast<std::uint8_t>(row.packet_life_time)),
              row.timeout)
        << row.ack_delay << " " << row.packet_life_time;
  }
}

/// The attributes that each type needs at each step (ibv_modify_qp(3)).
TEST(QueuePairPlan, MaskOfEachTypeAndState) {
  struct Row {
    ibv_qp_type type;
    int init, rtr, rts;
  };
  constexpr Row kRows[] = {
      {IBV_QPT_RC, kInit | IBV_QP_ACCESS_FLAGS, kRtr | kReads, kRts | kRetries},
      {IBV_QPT_UC, kInit | IBV_QP_ACCESS_FLAGS, kRtr, kRts},
      {IBV_QPT_UD, kInit | IBV_QP_QKEY, IBV_QP_STATE, kRts},
      {IBV_QPT_XRC_SEND, kInit | IBV_QP_ACCESS_FLAGS, kRtr, kRts | kRetries},
      {IBV_QPT_XRC_RECV, kInit | IBV_QP_ACCESS_FLAGS, kRtr | kReads, kRts | IBV_QP_TIMEOUT},
  };
  for (const Row& row : kRows) {
    ibv_qp_attr attributes{};
    EXPECT_EQ(mask_of(row.type, IBV_QPS_INIT, attributes), row.init) << row.type;
    EXPECT_EQ(mask_of(row.type, IBV_QPS_RTR, attributes), row.rtr) << row.type;
    EXPECT_EQ(mask_of(row.type, IBV_QPS_RTS, attributes), row.rts) << row.type;
  }
}

TEST(QueuePairPlan, RtrSaysWhereThePeerIs) {
  ibv_qp_attr attributes{};
  mask_of(IBV_QPT_RC, IBV_QPS_RTR, attributes);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(attributes.dest_qp_num, 0x4711u);
  EXPECT_EQ(attributes.rq_psn, 0xdefu);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_4096);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 8);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_EQ(attributes.ah_attr.sl, 3);
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 2);
  EXPECT_EQ(attributes.ah_attr.grh.flow_label, 0x12345u);
  EXPECT_EQ(attributes.ah_attr.grh.hop_limit, 63);
  EXPECT_EQ(attributes.ah_attr.grh.traffic_class, 104);
  EXPECT_TRUE(std::ranges::equal(attributes.ah_attr.grh.dgid.raw, plan().path.remote_gid.bytes));
}

TEST(QueuePairPlan, ThroughARouterThePeerIsItsLidAndTheGid) {
  QueuePairPlan plan;
  const GlobalRoute grh{.source = {{1}}, .destination = {{2}}, .flow_label = 5, .hop_limit = 255};
  plan.path = {.remote = InfinibandPath{.dlid = Lid{9}, .slid = Lid{6}, .grh = grh}};
  const ibv_ah_attr address = address_vector(plan.path, 3);
  EXPECT_EQ(address.dlid, 9);
  EXPECT_EQ(address.is_global, 1);
  EXPECT_EQ(address.grh.dgid.raw[0], 2);
  EXPECT_EQ(address.grh.sgid_index, 3);
  EXPECT_EQ(address.grh.flow_label, 5u);
  EXPECT_EQ(address.grh.hop_limit, 255);
}

TEST(QueuePairPlan, OverInfinibandThePeerIsALid) {
  QueuePairPlan plan;
  plan.path = {.remote = InfinibandPath{.dlid = Lid{9},
                                        .slid = Lid{6},
                                        .service_level = 3,
                                        .static_rate = IBV_RATE_100_GBPS,
                                        .grh = std::nullopt},
               .service_level = 3};
  const ibv_ah_attr address = address_vector(plan.path, 0);
  EXPECT_EQ(address.dlid, 9);
  EXPECT_EQ(address.src_path_bits, 6);  // Those below the port's LMC count.
  EXPECT_EQ(address.sl, 3);
  EXPECT_EQ(address.static_rate, IBV_RATE_100_GBPS);
  EXPECT_EQ(address.is_global, 0);
  EXPECT_EQ(address.port_num, 1);
}

TEST(QueuePairPlan, TheQueuePairIsOfThePortThatLeadsToThePeer) {
  QueuePairPlan plan;
  plan.port = 2;
  plan.path.remote = InfinibandPath{.dlid = Lid{9}, .slid = Lid{6}, .port = 2, .grh = {}};
  ibv_qp_attr attributes{};
  ASSERT_TRUE(attributes_for(plan, IBV_QPT_RC, 0, IBV_QPS_INIT, attributes));
  EXPECT_EQ(attributes.port_num, 2);
  ASSERT_TRUE(attributes_for(plan, IBV_QPT_RC, 0, IBV_QPS_RTR, attributes));
  EXPECT_EQ(attributes.ah_attr.port_num, 2);
}

TEST(QueuePairPlan, RtsSaysWhatThePeerHasAskedFor) {
  ibv_qp_attr attributes{};
  mask_of(IBV_QPT_RC, IBV_QPS_RTS, attributes);
  EXPECT_EQ(attributes.sq_psn, 0xabcu);
  EXPECT_EQ(attributes.timeout, 19);
  EXPECT_EQ(attributes.retry_cnt, 5);
  EXPECT_EQ(attributes.rnr_retry, 6);
  EXPECT_EQ(attributes.max_rd_atomic, 4);
}

TEST(QueuePairPlan, ReadsAreAllowedWhereTheyAreAnswered) {
  ibv_qp_attr attributes{};
  mask_of(IBV_QPT_RC, IBV_QPS_INIT, attributes);
  EXPECT_EQ(attributes.qp_access_flags,
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  mask_of(IBV_QPT_UC, IBV_QPS_INIT, attributes);
  EXPECT_EQ(attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});
  QueuePairPlan none = plan();
  none.responder_resources = 0;
  ASSERT_TRUE(attributes_for(none, IBV_QPT_RC, 0, IBV_QPS_INIT, attributes));
  EXPECT_EQ(attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});
}

TEST(QueuePairPlan, DatagramsHaveTheQKeyOfTheConnectionManager) {
  ibv_qp_attr attributes{};
  mask_of(IBV_QPT_UD, IBV_QPS_INIT, attributes);
  EXPECT_EQ(attributes.qkey, unsigned{RDMA_UDP_QKEY});
  QueuePairPlan of_a_partition = plan();
  of_a_partition.qkey = QKey{0x0b1b};
  ASSERT_TRUE(attributes_for(of_a_partition, IBV_QPT_UD, 0, IBV_QPS_INIT, attributes));
  EXPECT_EQ(attributes.qkey, 0x0b1bu);
}

TEST(QueuePairPlan, OtherStatesAreRefused) {
  ibv_qp_attr attributes{};
  const auto refused = attributes_for(plan(), IBV_QPT_RC, 0, IBV_QPS_SQD, attributes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

}  // namespace
}  // namespace verbatim::connect

// Calls that only a node with VERBATIM_PROTOCOL=iwarp refuses.
#include "refused.h"

namespace refused {
namespace {

int create_datagram_queue_pair(const Bench& bench) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = bench.cq;
  wanted.cap = endpoint::capacity(4, 4);
  wanted.qp_type = IBV_QPT_UD;
  return errno_of(ibv_create_qp(bench.pd, &wanted));
}

int move_to_ready_to_receive(const Bench& bench) {
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
  bench.initialise(qp);
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTR;
  wanted.path_mtu = IBV_MTU_1024;
  wanted.ah_attr = bench.path_to_self();
  const int answer =
      ibv_modify_qp(qp, &wanted,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  ibv_destroy_qp(qp);
  return answer;
}

int send_with_immediate(const Bench& bench) {
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
  bench.initialise(qp);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  ibv_send_wr* bad = nullptr;
  const int answer = ibv_post_send(qp, &request, &bad);
  ibv_destroy_qp(qp);
  return answer;
}

}  // namespace

void add_iwarp(Rows& rows) {
  rows.push_back({"ibv_create_qp", "over iWARP, `qp_type` other than `IBV_QPT_RC`", EOPNOTSUPP,
                  "RDMAP has no others", create_datagram_queue_pair});
  rows.push_back({"ibv_modify_qp", "over iWARP, `qp_state` RTR, RTS or SQD", EOPNOTSUPP,
                  "rdma_cm connects queue pairs: these attributes name no TCP connection",
                  move_to_ready_to_receive});
  rows.push_back({"ibv_post_send", "over iWARP, `opcode` `IBV_WR_SEND_WITH_IMM`", EINVAL,
                  "RDMAP's SEND has no immediate data", send_with_immediate});
}

}  // namespace refused

// Shared receives: shared receive queues, work queues, queue pairs with receive-side scaling.
#include "refused.h"

namespace refused {
namespace {

ibv_srq* make_srq(const Bench& bench, ibv_srq_type type) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  wanted.srq_type = type;
  wanted.pd = bench.pd;
  if (type == IBV_SRQT_TM) {
    wanted.comp_mask |= IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
    wanted.cq = bench.cq;
    wanted.tm_cap = {.max_num_tags = 4, .max_ops = 4};
  }
  return ibv_create_srq_ex(bench.context, &wanted);
}

int create_on_srq(const Bench& bench, ibv_qp_type type, ibv_srq_type srq_type) {
  ibv_srq* const srq = make_srq(bench, srq_type);
  endpoint::check(srq != nullptr, "ibv_create_srq_ex");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = bench.cq;
  wanted.srq = srq;
  wanted.cap = endpoint::capacity(4, 0);
  wanted.qp_type = type;
  const int answer = errno_of(ibv_create_qp(bench.pd, &wanted));
  ibv_destroy_srq(srq);
  return answer;
}

ibv_wq* make_work_queue(const Bench& bench, std::uint32_t flags) {
  ibv_wq_init_attr wanted{};
  wanted.wq_type = IBV_WQT_RQ;
  wanted.max_wr = 4;
  wanted.max_sge = 1;
  wanted.pd = bench.pd;
  wanted.cq = bench.cq;
  wanted.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
  wanted.create_flags = flags;
  return ibv_create_wq(bench.context, &wanted);
}

int strip_later(const Bench& bench) {
  ibv_wq* const queue = make_work_queue(bench, 0);
  endpoint::check(queue != nullptr, "ibv_create_wq");
  ibv_wq_attr wanted{};
  wanted.attr_mask = IBV_WQ_ATTR_FLAGS;
  wanted.flags = wanted.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  const int answer = ibv_modify_wq(queue, &wanted);
  ibv_destroy_wq(queue);
  return answer;
}

/// Returns the result of `use` with a queue pair of this type that scales over one work queue.
int with_scaling(const Bench& bench, ibv_qp_type type, const std::function<int(ibv_qp*)>& use) {
  ibv_wq* queue = make_work_queue(bench, 0);
  ibv_rwq_ind_table_init_attr only{};
  only.ind_tbl = &queue;
  ibv_rwq_ind_table* const table = ibv_create_rwq_ind_table(bench.context, &only);
  endpoint::check(table != nullptr, "ibv_create_rwq_ind_table");
  std::uint8_t key[40] = {};
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = type;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  wanted.pd = bench.pd;
  wanted.rwq_ind_tbl = table;
  wanted.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                         .rx_hash_key_len = sizeof key,
                         .rx_hash_key = key,
                         .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4};
  ibv_qp* const qp = ibv_create_qp_ex(bench.context, &wanted);
  const int answer = qp != nullptr ? use(qp) : errno;
  if (qp != nullptr) ibv_destroy_qp(qp);
  ibv_destroy_rwq_ind_table(table);
  ibv_destroy_wq(queue);
  return answer;
}

void add_work_queue_flag(Rows& rows, const std::string& name, std::uint32_t flag,
                         const std::string& why) {
  rows.push_back({"ibv_create_wq", "`create_flags` `" + name + "`", EOPNOTSUPP, why,
                  [flag](const Bench& bench) { return errno_of(make_work_queue(bench, flag)); }});
}

}  // namespace

void add_receive_queues(Rows& rows) {
  rows.push_back({"ibv_create_srq_ex", "`srq_type` that no header has", EOPNOTSUPP,
                  "unknown: there are BASIC, XRC and TM", [](const Bench& bench) {
                    return errno_of(
                        make_srq(bench, beyond_the_header<ibv_srq_type>(IBV_SRQT_TM + 1)));
                  }});
  rows.push_back({"ibv_create_qp", "not `IBV_QPT_RC`, with an `IBV_SRQT_TM` queue", EOPNOTSUPP,
                  "`tm_caps` name RC alone, as with mlx5", [](const Bench& bench) {
                    return create_on_srq(bench, IBV_QPT_UD, IBV_SRQT_TM);
                  }});
  rows.push_back({"ibv_create_qp", "`IBV_QPT_RAW_PACKET` with a shared receive queue", EINVAL,
                  "RC, UD and XRC share receive queues (ibv_create_qp(3))", [](const Bench& bench) {
                    return create_on_srq(bench, IBV_QPT_RAW_PACKET, IBV_SRQT_BASIC);
                  }});
  rows.push_back({"ibv_create_qp_ex", "not `IBV_QPT_RAW_PACKET`, with an indirection table",
                  EOPNOTSUPP, "`rss_caps` name raw packets alone", [](const Bench& bench) {
                    return with_scaling(bench, IBV_QPT_UD, [](ibv_qp*) { return 0; });
                  }});
  rows.push_back({"ibv_modify_qp", "of a queue pair with an indirection table", EOPNOTSUPP,
                  "it has no states: its work queues have", [](const Bench& bench) {
                    return with_scaling(bench, IBV_QPT_RAW_PACKET, [](ibv_qp* qp) {
                      ibv_qp_attr wanted{};
                      wanted.qp_state = IBV_QPS_ERR;
                      return ibv_modify_qp(qp, &wanted, IBV_QP_STATE);
                    });
                  }});
  add_work_queue_flag(rows, "IBV_WQ_FLAGS_CVLAN_STRIPPING", IBV_WQ_FLAGS_CVLAN_STRIPPING,
                      "not yet: tags stay in the frame");
  add_work_queue_flag(
      rows, "IBV_WQ_FLAGS_SCATTER_FCS", IBV_WQ_FLAGS_SCATTER_FCS,
      "frames come without a check sequence, as the kernel's packet sockets have them");
  add_work_queue_flag(rows, "IBV_WQ_FLAGS_DELAY_DROP", IBV_WQ_FLAGS_DELAY_DROP,
                      "no port can be told to wait while a program posts no receives");
  add_work_queue_flag(rows, "IBV_WQ_FLAGS_PCI_WRITE_END_PADDING",
                      IBV_WQ_FLAGS_PCI_WRITE_END_PADDING, "there is no PCI bus");
  rows.push_back({"ibv_modify_wq", "`IBV_WQ_ATTR_FLAGS`", EOPNOTSUPP,
                  "not yet: tags stay in the frame", strip_later});
}

}  // namespace refused

// Queue pairs: creating, modifying, posting.
#include "refused.h"

namespace refused {
namespace {

using Attributes = ibv_qp_init_attr_ex;

int create(const Bench& bench, ibv_qp_type type, const std::function<void(Attributes&)>& change) {
  Attributes wanted{};
  wanted.send_cq = wanted.recv_cq = bench.cq;
  wanted.cap = endpoint::capacity(4, 4);
  wanted.qp_type = type;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  wanted.pd = bench.pd;
  change(wanted);
  return errno_of(ibv_create_qp_ex(bench.context, &wanted));
}

/// Uses a queue pair that is connected to itself.
int modify(const Bench& bench, int mask, const std::function<void(ibv_qp_attr&)>& change) {
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
  bench.connect(qp, qp->qp_num, IBV_MTU_1024);
  ibv_qp_attr wanted{};
  change(wanted);
  const int answer = ibv_modify_qp(qp, &wanted, mask);
  ibv_destroy_qp(qp);
  return answer;
}

int connect_without_grh(const Bench& bench) {
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_UC, 4, 4);
  bench.initialise(qp);
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTR;
  wanted.path_mtu = IBV_MTU_1024;
  wanted.ah_attr = bench.path_to_self();
  wanted.ah_attr.is_global = 0;
  const int answer = ibv_modify_qp(
      qp, &wanted, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
  ibv_destroy_qp(qp);
  return answer;
}

int post(const Bench& bench, ibv_wr_opcode opcode, unsigned flags = 0) {
  ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
  bench.connect(qp, qp->qp_num, IBV_MTU_1024);
  ibv_send_wr request{};
  request.opcode = opcode;
  request.send_flags = flags;
  ibv_send_wr* bad = nullptr;
  const int answer = ibv_post_send(qp, &request, &bad);
  ibv_destroy_qp(qp);
  return answer;
}

void add_create_flag(Rows& rows, const std::string& name, std::uint32_t flag, ibv_qp_type type,
                     const std::string& why) {
  rows.push_back({"ibv_create_qp_ex", "`create_flags` `" + name + "`", EOPNOTSUPP, why,
                  [flag, type](const Bench& bench) {
                    return create(bench, type, [flag](Attributes& wanted) {
                      wanted.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
                      wanted.create_flags = flag;
                    });
                  }});
}

void add_create_flags(Rows& rows) {
  add_create_flag(rows, "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB", IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
                  IBV_QPT_RAW_PACKET, "of raw packets not yet; `IBV_QPT_UD` has it");
  add_create_flag(rows, "IBV_QP_CREATE_SCATTER_FCS", IBV_QP_CREATE_SCATTER_FCS, IBV_QPT_RAW_PACKET,
                  "frames come without a check sequence, as the kernel's packet sockets have them");
  add_create_flag(rows, "IBV_QP_CREATE_CVLAN_STRIPPING", IBV_QP_CREATE_CVLAN_STRIPPING,
                  IBV_QPT_RAW_PACKET, "not yet: tags stay in the frame");
  add_create_flag(rows, "IBV_QP_CREATE_SOURCE_QPN", IBV_QP_CREATE_SOURCE_QPN, IBV_QPT_UD,
                  "for IPoIB under another queue pair's number, which RoCE does not have");
  add_create_flag(rows, "IBV_QP_CREATE_PCI_WRITE_END_PADDING", IBV_QP_CREATE_PCI_WRITE_END_PADDING,
                  IBV_QPT_RAW_PACKET, "there is no PCI bus");
}

void add_types(Rows& rows) {
  rows.push_back(
      {"ibv_create_qp", "`qp_type` `IBV_QPT_DRIVER`", EOPNOTSUPP,
       "vendors' own transports, such as DC and SRD, through their own libraries",
       [](const Bench& bench) { return create(bench, IBV_QPT_DRIVER, [](Attributes&) {}); }});
  rows.push_back({"ibv_create_qp_ex", "`comp_mask` `IBV_QP_INIT_ATTR_MAX_TSO_HEADER`", EOPNOTSUPP,
                  "not yet: segmentation of raw packets; `tso_caps` are 0", [](const Bench& bench) {
                    return create(bench, IBV_QPT_RAW_PACKET, [](Attributes& wanted) {
                      wanted.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
                      wanted.max_tso_header = 64;
                    });
                  }});
  rows.push_back({"ibv_create_qp_ex", "`send_ops_flags` `IBV_QP_EX_WITH_TSO` (`ibv_wr_send_tso`)",
                  EOPNOTSUPP, "not yet: segmentation of raw packets", [](const Bench& bench) {
                    return create(bench, IBV_QPT_RAW_PACKET, [](Attributes& wanted) {
                      wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
                      wanted.send_ops_flags = IBV_QP_EX_WITH_TSO;
                    });
                  }});
  rows.push_back({"ibv_create_qp_ex", "`send_ops_flags` that the type does not have", EOPNOTSUPP,
                  "such as READ on UC, or WRITE on UD", [](const Bench& bench) {
                    return create(bench, IBV_QPT_UC, [](Attributes& wanted) {
                      wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
                      wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
                    });
                  }});
}

void add_modifications(Rows& rows) {
  rows.push_back({"ibv_modify_qp", "`IBV_QP_ALT_PATH`", EOPNOTSUPP,
                  "automatic path migration is InfiniBand's: the kernel refuses it with RoCE",
                  [](const Bench& bench) {
                    return modify(bench, IBV_QP_ALT_PATH, [&](ibv_qp_attr& wanted) {
                      wanted.alt_ah_attr = bench.path_to_self();
                      wanted.alt_port_num = 1;
                    });
                  }});
  rows.push_back({"ibv_modify_qp", "`IBV_QP_PATH_MIG_STATE`", EOPNOTSUPP,
                  "there is no alternate path to migrate to", [](const Bench& bench) {
                    return modify(bench, IBV_QP_PATH_MIG_STATE, [](ibv_qp_attr& wanted) {
                      wanted.path_mig_state = IBV_MIG_REARM;
                    });
                  }});
  rows.push_back({"ibv_modify_qp", "`IBV_QP_CAP`", EINVAL,
                  "queues keep their size: the device lacks `IBV_DEVICE_RESIZE_MAX_WR`",
                  [](const Bench& bench) {
                    return modify(bench, IBV_QP_CAP, [](ibv_qp_attr& wanted) {
                      wanted.cap = endpoint::capacity(8, 8);
                    });
                  }});
  rows.push_back({"ibv_modify_qp", "`IBV_QP_RATE_LIMIT` but of `IBV_QPT_RAW_PACKET`", EINVAL,
                  "as the kernel has it; `ibv_modify_qp_rate_limit` serves every type",
                  [](const Bench& bench) {
                    return modify(bench, IBV_QP_RATE_LIMIT,
                                  [](ibv_qp_attr& wanted) { wanted.rate_limit = 1000; });
                  }});
  rows.push_back({"ibv_modify_qp", "to `IBV_QPS_RTR` with `is_global` 0", EINVAL,
                  "RoCE addresses by GID: every RoCE device wants a GRH", connect_without_grh});
}

void add_requests(Rows& rows) {
  rows.push_back({"ibv_post_send", "`IBV_WR_TSO`", EOPNOTSUPP,
                  "not yet: segmentation of raw packets",
                  [](const Bench& bench) { return post(bench, IBV_WR_TSO); }});
  rows.push_back({"ibv_post_send", "`IBV_WR_DRIVER1`", EOPNOTSUPP, "a vendor's own request",
                  [](const Bench& bench) { return post(bench, IBV_WR_DRIVER1); }});
  rows.push_back({"ibv_post_send", "`IBV_WR_FLUSH`", EOPNOTSUPP,
                  "`struct ibv_send_wr` has no place for it: `ibv_wr_flush` posts it",
                  [](const Bench& bench) {
                    constexpr unsigned kFlush = 14;  // From newer headers.
                    return post(bench, beyond_the_header<ibv_wr_opcode>(kFlush));
                  }});
  rows.push_back({"ibv_post_send", "`IBV_SEND_IP_CSUM` but on raw packets", EINVAL,
                  "the kernel makes the checksums of RoCE's UDP packets; `device_cap_flags` say so",
                  [](const Bench& bench) { return post(bench, IBV_WR_SEND, IBV_SEND_IP_CSUM); }});
}

}  // namespace

void add_queue_pairs(Rows& rows) {
  add_types(rows);
  add_create_flags(rows);
  add_modifications(rows);
  add_requests(rows);
  const char* const no_options =
      "the vendors' own options of a connection (ECE), and the adapter has none, like rdma_rxe "
      "and siw";
  rows.push_back({"ibv_set_ece", "", EOPNOTSUPP, no_options,
                  [](const Bench& bench) {
                    ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
                    ibv_ece options{.vendor_id = 1, .options = 1, .comp_mask = 0};
                    const int answer = ibv_set_ece(qp, &options);
                    ibv_destroy_qp(qp);
                    return answer;
                  },
                  0});  // Libraries try it: no line.
  rows.push_back({"ibv_query_ece", "", EOPNOTSUPP, no_options,
                  [](const Bench& bench) {
                    ibv_qp* const qp = bench.create_queue_pair(IBV_QPT_RC, 4, 4);
                    ibv_ece options{};
                    const int answer = ibv_query_ece(qp, &options);
                    ibv_destroy_qp(qp);
                    return answer;
                  },
                  0});  // Libraries try it: no line.
}

}  // namespace refused

#include "connect/queue_pair_plan.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fmt/format.h>

namespace verbatim::connect {
namespace {

constexpr std::uint8_t kMinRnrTimer = 12;  // 0.64 ms: docs/decisions.md.
constexpr std::uint16_t kPathBits = 0x7f;  // Of a LID, those below the port's LMC count.

bool answers_reads(ibv_qp_type type) { return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV; }

int to_init(const QueuePairPlan& plan, ibv_qp_type type, ibv_qp_attr& attributes) {
  attributes.pkey_index = 0;
  attributes.port_num = plan.port;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (type == IBV_QPT_UD) {
    attributes.qkey = raw(plan.qkey);
    return mask | IBV_QP_QKEY;
  }
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (answers_reads(type) && plan.responder_resources > 0) {
    attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  return mask | IBV_QP_ACCESS_FLAGS;
}

int to_rtr(const QueuePairPlan& plan, ibv_qp_type type, std::uint8_t gid_index,
           ibv_qp_attr& attributes) {
  if (type == IBV_QPT_UD) return IBV_QP_STATE;
  attributes.ah_attr = address_vector(plan.path, gid_index);
  attributes.path_mtu = static_cast<ibv_mtu>(raw(plan.path.mtu));
  attributes.dest_qp_num = plan.peer.qpn.value();
  attributes.rq_psn = plan.own_psn.value();  // As this side has announced it.
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (!answers_reads(type)) return mask;
  attributes.max_dest_rd_atomic = plan.responder_resources;
  attributes.min_rnr_timer = kMinRnrTimer;
  return mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int to_rts(const QueuePairPlan& plan, ibv_qp_type type, ibv_qp_attr& attributes) {
  attributes.sq_psn = plan.peer.starting_psn.value();
  const int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (type == IBV_QPT_UD || type == IBV_QPT_UC) return mask;
  attributes.timeout = plan.path.ack_timeout;
  if (type == IBV_QPT_XRC_RECV) return mask | IBV_QP_TIMEOUT;
  attributes.retry_cnt = plan.retry_count;
  attributes.rnr_retry = plan.rnr_retry_count;
  attributes.max_rd_atomic = plan.initiator_depth;
  return mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

void set_grh(ibv_ah_attr& address, const GlobalRoute& grh, std::uint8_t gid_index) {
  std::ranges::copy(grh.destination.bytes, std::begin(address.grh.dgid.raw));
  address.grh.flow_label = grh.flow_label;
  address.grh.sgid_index = gid_index;
  address.grh.hop_limit = grh.hop_limit;
  address.grh.traffic_class = grh.traffic_class;
  address.is_global = 1;
}

}  // namespace

std::uint8_t ack_timeout_of(std::uint8_t ack_delay, std::uint8_t packet_life_time) {
  constexpr int kMax = 31;
  const int there_and_back = packet_life_time + 1;  // One more is twice as long.
  const auto [less, more] = std::minmax({there_and_back, int{ack_delay}});
  // The sum is nearer to twice the longer one if the shorter one is at least half of it.
  return static_cast<std::uint8_t>(std::min(more + (less >= more - 1 ? 1 : 0), kMax));
}

ibv_ah_attr address_vector(const cm::Path& path, std::uint8_t gid_index) {
  ibv_ah_attr address{.sl = path.service_level, .port_num = 1};
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&path.remote)) {
    address.port_num = infiniband->port;
    address.dlid = raw(infiniband->dlid);
    address.src_path_bits = static_cast<std::uint8_t>(raw(infiniband->slid) & kPathBits);
    address.static_rate = infiniband->static_rate;
    if (infiniband->grh) set_grh(address, *infiniband->grh, gid_index);
    return address;
  }
  set_grh(address,
          {.destination = path.remote_gid,
           .flow_label = path.flow_label,
           .traffic_class = path.traffic_class,
           .hop_limit = path.hop_limit},
          gid_index);
  return address;
}

Result<int> attributes_for(const QueuePairPlan& plan, ibv_qp_type type, std::uint8_t gid_index,
                           ibv_qp_state state, ibv_qp_attr& attributes) {
  attributes.qp_state = state;
  switch (state) {
    case IBV_QPS_INIT:
      return to_init(plan, type, attributes);
    case IBV_QPS_RTR:
      return to_rtr(plan, type, gid_index, attributes);
    case IBV_QPS_RTS:
      return to_rts(plan, type, attributes);
    default:
      return refuse(EINVAL, fmt::format("attributes are known for INIT, RTR and RTS, not for {}",
                                        static_cast<int>(state)));
  }
}

}  // namespace verbatim::connect

#include "api/connecting/modify.h"

#include <algorithm>
#include <cstring>

#include "api/handles.h"

namespace verbatim::inline v1::detail {
namespace {

constexpr std::uint8_t kMinReceiverNotReadyTimer = 12;  // 0.64 ms (IBA volume 1, table 45).
constexpr std::uint8_t kHopLimit = 64;

Result<void> modify(ibv_qp* queue_pair, ibv_qp_attr attributes, int mask, const char* detail) {
  if (const int code = ibv_modify_qp(queue_pair, &attributes, mask); code != 0) {
    Failure failure = refused(Call::change_queue_pair, code, detail);
    failure.queue_pair = queue_pair->qp_num;
    return failure;
  }
  return {};
}

}  // namespace

ibv_ah_attr address_of(const Context& context, bool has_gid, const Gid& gid, std::uint16_t lid) {
  ibv_ah_attr address{};
  address.dlid = lid;
  address.port_num = context.port().number;
  if (has_gid) {
    address.is_global = 1;
    std::memcpy(address.grh.dgid.raw, gid.bytes.data(), gid.bytes.size());
    address.grh.sgid_index = context.gid_index();
    address.grh.hop_limit = kHopLimit;
  }
  return address;
}

Result<void> to_init(ibv_qp* queue_pair, const Context& context) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = context.port().number;
  attributes.qp_access_flags = static_cast<unsigned>(Access::all);
  return modify(queue_pair, attributes,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "the queue pair cannot be initialised");
}

Result<void> to_receive(ibv_qp* queue_pair, const Context& context, const PeerAddress& peer,
                        ibv_mtu mtu, const QueuePairOptions& options) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = address_of(context, peer.has_gid, peer.gid, peer.lid);
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic = options.reads_in_flight;
  attributes.min_rnr_timer = kMinReceiverNotReadyTimer;
  return modify(queue_pair, attributes,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "the peer's address, as it was exchanged, cannot be reached");
}

Result<void> to_send(ibv_qp* queue_pair, std::uint32_t psn, const PeerAddress& peer,
                     const QueuePairOptions& options) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn;
  attributes.timeout = options.ack_timeout;
  attributes.retry_cnt = options.retry_count;
  attributes.rnr_retry = options.receiver_not_ready_retries;
  attributes.max_rd_atomic = std::min(options.reads_in_flight, peer.reads_in_flight);
  return modify(queue_pair, attributes,
                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "the queue pair cannot be made ready to send");
}

Result<void> to_send_datagrams(ibv_qp* queue_pair, const Context& context, std::uint32_t key) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = context.port().number;
  attributes.qkey = key;
  constexpr const char* kDetail = "the datagram queue pair cannot be made ready";
  if (auto done = modify(queue_pair, attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, kDetail);
      !done) {
    return done;
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  if (auto done = modify(queue_pair, attributes, IBV_QP_STATE, kDetail); !done) return done;
  attributes.qp_state = IBV_QPS_RTS;
  return modify(queue_pair, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, kDetail);
}

}  // namespace verbatim::inline v1::detail

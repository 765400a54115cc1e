#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/control/link_local.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Queue pairs: modifying, querying, destroying.
namespace verbatim::dropin {
namespace {

using adapter::QpState;
using adapter::QpType;
static_assert(int{raw(QpState::reset)} == IBV_QPS_RESET && int{raw(QpState::rtr)} == IBV_QPS_RTR);
static_assert(int{raw(QpState::sqe)} == IBV_QPS_SQE && int{raw(QpState::err)} == IBV_QPS_ERR);
static_assert(int{raw(QpType::rc)} == IBV_QPT_RC && int{raw(QpType::ud)} == IBV_QPT_UD);
static_assert(int{raw(QpType::raw_packet)} == IBV_QPT_RAW_PACKET);
static_assert(int{adapter::kState} == IBV_QP_STATE && int{adapter::kAddressVector} == IBV_QP_AV);
static_assert(int{adapter::kReceivePsn} == IBV_QP_RQ_PSN &&
              int{adapter::kSendPsn} == IBV_QP_SQ_PSN);
static_assert(int{adapter::kDestQpn} == IBV_QP_DEST_QPN);
static_assert(int{adapter::kAlternatePath} == IBV_QP_ALT_PATH &&
              int{adapter::kPathMigrationState} == IBV_QP_PATH_MIG_STATE);
using transport::PathMigrationState;
static_assert(int{raw(PathMigrationState::migrated)} == IBV_MIG_MIGRATED &&
              int{raw(PathMigrationState::rearm)} == IBV_MIG_REARM &&
              int{raw(PathMigrationState::armed)} == IBV_MIG_ARMED);
static_assert(int{adapter::kRateLimit} == IBV_QP_RATE_LIMIT);

ibv_ah_attr to_verbs(const port::AddressVector& own) {
  ibv_ah_attr theirs{.dlid = raw(own.dlid),
                     .sl = own.service_level,
                     .src_path_bits = own.path_bits,
                     .static_rate = own.static_rate,
                     .is_global = own.is_global,
                     .port_num = own.port};
  if (!own.is_global) return theirs;
  theirs.grh = {.dgid = dropin::to_verbs(own.dest_gid),
                .flow_label = own.flow_label,
                .sgid_index = own.source_gid_index,
                .hop_limit = own.hop_limit,
                .traffic_class = own.traffic_class};
  return theirs;
}

/// Reads the fields that `mask` names; other fields of the program's structure are undefined.
adapter::QueuePairAttributes to_attributes(const ibv_qp_attr& theirs, int mask) {
  adapter::QueuePairAttributes own;
  const auto take = [mask](int bit, auto& to, auto value) {
    if ((mask & bit) != 0) to = value;
  };
  take(IBV_QP_STATE, own.state, static_cast<QpState>(theirs.qp_state));
  take(IBV_QP_CUR_STATE, own.current_state, static_cast<QpState>(theirs.cur_qp_state));
  take(IBV_QP_PATH_MTU, own.path_mtu, static_cast<Mtu>(theirs.path_mtu));
  take(IBV_QP_QKEY, own.qkey, QKey{theirs.qkey});
  take(IBV_QP_RQ_PSN, own.receive_psn, Psn(theirs.rq_psn));
  take(IBV_QP_SQ_PSN, own.send_psn, Psn(theirs.sq_psn));
  take(IBV_QP_DEST_QPN, own.dest_qpn, Qpn(theirs.dest_qp_num));
  take(IBV_QP_ACCESS_FLAGS, own.access, theirs.qp_access_flags);
  take(IBV_QP_CAP, own.capacity, to_capacity(theirs.cap));
  if ((mask & IBV_QP_AV) != 0) own.address = to_address_vector(theirs.ah_attr);
  take(IBV_QP_PKEY_INDEX, own.pkey_index, theirs.pkey_index);
  take(IBV_QP_EN_SQD_ASYNC_NOTIFY, own.sqd_notify, theirs.en_sqd_async_notify != 0);
  take(IBV_QP_MAX_QP_RD_ATOMIC, own.max_rd_atomic, theirs.max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, own.max_dest_rd_atomic, theirs.max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, own.min_rnr_timer, theirs.min_rnr_timer);
  take(IBV_QP_PORT, own.port, theirs.port_num);
  take(IBV_QP_TIMEOUT, own.timeout, theirs.timeout);
  take(IBV_QP_RETRY_CNT, own.retry_count, theirs.retry_cnt);
  take(IBV_QP_RNR_RETRY, own.rnr_retry, theirs.rnr_retry);
  take(IBV_QP_RATE_LIMIT, own.rate_limit_kbps, theirs.rate_limit);
  if ((mask & IBV_QP_ALT_PATH) != 0) {
    own.alternate = {.address = to_address_vector(theirs.alt_ah_attr),
                     .pkey_index = theirs.alt_pkey_index,
                     .port = theirs.alt_port_num,
                     .timeout = theirs.alt_timeout};
  }
  take(IBV_QP_PATH_MIG_STATE, own.path_migration,
       static_cast<PathMigrationState>(theirs.path_mig_state));
  return own;
}

ibv_qp_attr to_verbs(const adapter::QueuePairAttributes& own) {
  ibv_qp_attr theirs{};
  theirs.qp_state = static_cast<ibv_qp_state>(raw(own.state));
  theirs.cur_qp_state = static_cast<ibv_qp_state>(raw(own.current_state));
  theirs.path_mtu = static_cast<ibv_mtu>(raw(own.path_mtu));
  theirs.path_mig_state = static_cast<ibv_mig_state>(raw(own.path_migration));
  theirs.qkey = raw(own.qkey);
  theirs.rq_psn = own.receive_psn.value();
  theirs.sq_psn = own.send_psn.value();
  theirs.dest_qp_num = own.dest_qpn.value();
  theirs.qp_access_flags = own.access;
  theirs.cap = dropin::to_verbs(own.capacity);
  theirs.ah_attr = to_verbs(own.address);
  if (own.alternate.port != 0) theirs.alt_ah_attr = to_verbs(own.alternate.address);
  theirs.alt_pkey_index = own.alternate.pkey_index;
  theirs.alt_port_num = own.alternate.port;
  theirs.alt_timeout = own.alternate.timeout;
  theirs.pkey_index = own.pkey_index;
  theirs.en_sqd_async_notify = own.sqd_notify;
  theirs.sq_draining = own.is_draining;
  theirs.max_rd_atomic = own.max_rd_atomic;
  theirs.max_dest_rd_atomic = own.max_dest_rd_atomic;
  theirs.min_rnr_timer = own.min_rnr_timer;
  theirs.port_num = own.port;
  theirs.timeout = own.timeout;
  theirs.retry_cnt = own.retry_count;
  theirs.rnr_retry = own.rnr_retry;
  theirs.rate_limit = own.rate_limit_kbps;
  return theirs;
}

/// Refuses attributes that exceed the limits of the configured device.
Result<void> check(const ibv_qp_attr& wanted, int mask, const config::DeviceLimits& limits) {
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    if (auto fits = check_limit("max_rd_atomic", wanted.max_rd_atomic, limits.max_qp_init_rd_atom);
        !fits) {
      return fits;
    }
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    if (auto fits =
            check_limit("max_dest_rd_atomic", wanted.max_dest_rd_atomic, limits.max_qp_rd_atom);
        !fits) {
      return fits;
    }
  }
  return {};
}

}  // namespace

/// The typical packet size is a hint, which pacing by time does not need.
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* wanted) {
  if (wanted->comp_mask != 0) {
    return refused("modify_qp_rate_limit",
                   {EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted->comp_mask)});
  }
  const auto done = from(qp).queue_pair->limit_rate(wanted->rate_limit, wanted->max_burst_sz);
  return done ? 0 : refused("modify_qp_rate_limit", done.error());
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  if (auto fits = check(*attr, attr_mask, from(qp->context).limits()); !fits) {
    return refused("modify_qp", fits.error());
  }
  adapter::QueuePairAttributes wanted = to_attributes(*attr, attr_mask);
  if (from(qp->context).limits().atomic == IBV_ATOMIC_NONE) {
    wanted.access &= ~std::uint32_t{IBV_ACCESS_REMOTE_ATOMIC};  // Atomics of the peer are refused.
  }
  if ((attr_mask & IBV_QP_AV) != 0) {
    wanted.address = by_common_family(from(qp->context).adapter(), wanted.address);
  }
  const auto done = from(qp).queue_pair->modify(wanted, static_cast<std::uint32_t>(attr_mask));
  if (!done) return refused("modify_qp", done.error());
  if ((attr_mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr) {
  adapter::QueuePair& own = *from(qp).queue_pair;
  *attr = to_verbs(own.query());
  attr->cap = to_verbs(own.options().capacity);
  *init_attr = {.qp_context = qp->qp_context,
                .send_cq = qp->send_cq,
                .recv_cq = qp->recv_cq,
                .srq = qp->srq,
                .cap = attr->cap,
                .qp_type = qp->qp_type,
                .sq_sig_all = own.options().signal_all};
  if ((attr_mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  QueuePair& own = from(qp);
  if (const std::uint32_t flows = own.flows; flows > 0) {
    return refused("destroy_qp",
                   {EBUSY, fmt::format("{} flow rules still lead to the queue pair", flows)});
  }
  Context& context = from(qp->context);
  if (context.adapter().is_in_multicast_group(*own.queue_pair)) {
    return refused("destroy_qp", {EBUSY, "the queue pair is in a multicast group"});
  }
  {
    const std::lock_guard guard(context.live_objects_lock);
    context.queue_pairs.erase(&own);
  }
  context.adapter().release_queue_pair(own.queue_pair, &own);
  drop_async_events(context, &own, own.events_delivered, qp->events_completed, qp->mutex, qp->cond);
  pthread_cond_destroy(&qp->cond);
  pthread_mutex_destroy(&qp->mutex);
  delete &own;
  return 0;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  QueuePair& own = from(qp);
  return own.batch != nullptr ? &own.verbs : nullptr;
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

namespace {

/// Enhanced connection establishment transports options of vendors; there are none.
int refuse_options(const char* call) {
  return refused(call, {EOPNOTSUPP, "the adapter has no enhanced connection options (ECE)"});
}

}  // namespace

int ibv_set_ece(ibv_qp*, ibv_ece*) { return refuse_options("set_ece"); }

int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  *ece = {};
  return refuse_options("query_ece");
}

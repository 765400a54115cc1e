#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"

/// `ibv_modify_qp` and `ibv_query_qp`.
namespace verbatim::adapter {
namespace {

/// Whether the queue pair will take no packet any more. What has arrived is to count: the
/// acknowledgement of a program's last message, and the last message of its peer.
bool ends(const QueuePairAttributes& wanted, std::uint32_t mask) {
  return (mask & kState) != 0 && (wanted.state == QpState::err || wanted.state == QpState::reset);
}

}  // namespace

Result<void> QueuePair::modify(const QueuePairAttributes& wanted, std::uint32_t given) {
  if (options_.scaling) {
    return refuse(EOPNOTSUPP, "a queue pair that scales has no states: its work queues have");
  }
  const std::uint32_t mask = attributes_for(type(), given);
  // iWARP awaits no acknowledgement: a message is done when its stream has taken it.
  if (ends(wanted, mask) && !adapter_.node().is_iwarp()) {
    adapter_.progress().poll();
    adapter_.progress().finish_turn();
  }
  const std::lock_guard guard(lock_);
  take_notifications();
  const QpState from = (mask & kCurrentState) != 0 ? wanted.current_state : state();
  const QpState to = (mask & kState) != 0 ? wanted.state : from;
  if (from != state()) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in {}, not in {} as cur_qp_state says",
                                      number_.value(), name_of(state()), name_of(from)));
  }
  if (auto allowed = check_transition(type(), from, to, mask); !allowed) return allowed;
  if (auto valid = check_values(wanted, mask); !valid) return valid;
  const bool is_own_move =
      to == QpState::rtr || to == QpState::sqd || (to == QpState::rts && to != from);
  if (adapter_.node().is_iwarp() && is_own_move) {
    return refuse(EOPNOTSUPP,
                  fmt::format("QP {:#x} to {}: over iWARP, rdma_cm connects queue pairs",
                              number_.value(), name_of(to)));
  }

  if ((mask & kAddressVector) != 0) {
    const auto route = adapter_.route(
        wanted.address, (mask & kDestQpn) != 0 ? wanted.dest_qpn : attributes_.dest_qpn);
    if (!route) return std::unexpected(route.error());
    route_ = *route;
    peer_ = address_of(route->path);
  }
  apply(wanted, mask);
  enter(to, mask);
  if ((mask & kRateLimit) != 0) pace(wanted.rate_limit_kbps, 0);
  note_wire_use();
  const bool lacks_path = from == QpState::rtr && to == QpState::rts && link_ == nullptr &&
                          is_connected() && may_be_direct() && adapter_.membership().only_direct;
  if (!lacks_path) return {};
  enter_error();
  return refuse(EHOSTUNREACH,
                fmt::format("VERBATIM_PATH=direct, and QP {:#x} at {} is not on this machine, of "
                            "another user, or takes the wire (VERBATIM_LOG=info says which)",
                            attributes_.dest_qpn.value(), peer_.ip_text()));
}

Result<void> QueuePair::check_values(const QueuePairAttributes& wanted, std::uint32_t mask) const {
  const auto bad = [](std::string text) -> Result<void> { return refuse(EINVAL, std::move(text)); };
  const auto has = [mask](Attribute attribute) { return (mask & attribute) != 0; };
  if (has(kPort) && wanted.port != 1) {
    return bad(fmt::format("port {} does not exist: the adapter has port 1", wanted.port));
  }
  if (has(kPKeyIndex) && wanted.pkey_index != 0) {
    return bad(
        fmt::format("pkey_index {} does not exist: the table has one entry", wanted.pkey_index));
  }
  if (has(kPathMtu)) {
    if (raw(wanted.path_mtu) < raw(Mtu::k256) || raw(wanted.path_mtu) > raw(Mtu::k4096)) {
      return bad(fmt::format("path_mtu {} is no MTU (1 to 5)", raw(wanted.path_mtu)));
    }
    if (raw(wanted.path_mtu) > raw(adapter_.port().state().active_mtu)) {
      return bad(fmt::format("path_mtu {} is above the port's active MTU {}",
                             bytes_of(wanted.path_mtu),
                             bytes_of(adapter_.port().state().active_mtu)));
    }
  }
  if (has(kMaxRdAtomic) && wanted.max_rd_atomic > Limits::rd_atomic) {
    return bad(
        fmt::format("max_rd_atomic {} is above {}", wanted.max_rd_atomic, Limits::rd_atomic));
  }
  if (has(kMaxDestRdAtomic) && wanted.max_dest_rd_atomic > Limits::rd_atomic) {
    return bad(fmt::format("max_dest_rd_atomic {} is above {}", wanted.max_dest_rd_atomic,
                           Limits::rd_atomic));
  }
  if (has(kTimeout) && wanted.timeout > 31) {
    return bad(fmt::format("timeout {} is above 31", wanted.timeout));
  }
  if (has(kRetryCount) && wanted.retry_count > 7) {
    return bad(fmt::format("retry_cnt {} is above 7", wanted.retry_count));
  }
  if (has(kRnrRetry) && wanted.rnr_retry > 7) {
    return bad(fmt::format("rnr_retry {} is above 7", wanted.rnr_retry));
  }
  if (has(kMinRnrTimer) && wanted.min_rnr_timer > 31) {
    return bad(fmt::format("min_rnr_timer {} is above 31", wanted.min_rnr_timer));
  }
  if (has(kRateLimit) && wanted.rate_limit_kbps > Limits::rate_kbps) {
    return bad(fmt::format("rate_limit {} is above {}", wanted.rate_limit_kbps, Limits::rate_kbps));
  }
  if (has(kAlternatePath) || has(kPathMigrationState)) {
    return refuse(EOPNOTSUPP, "alternate paths (APM) are not implemented: RoCE has none");
  }
  return {};
}

void QueuePair::apply(const QueuePairAttributes& wanted, std::uint32_t mask) {
  const auto take = [mask](Attribute attribute, auto& to, const auto& from) {
    if ((mask & attribute) != 0) to = from;
  };
  QueuePairAttributes& own = attributes_;
  take(kEnableSqdNotify, own.sqd_notify, wanted.sqd_notify);
  take(kAccessFlags, own.access, wanted.access);
  take(kPKeyIndex, own.pkey_index, wanted.pkey_index);
  take(kPort, own.port, wanted.port);
  take(kQKey, own.qkey, wanted.qkey);
  take(kAddressVector, own.address, wanted.address);
  take(kPathMtu, own.path_mtu, wanted.path_mtu);
  take(kTimeout, own.timeout, wanted.timeout);
  take(kRetryCount, own.retry_count, wanted.retry_count);
  take(kRnrRetry, own.rnr_retry, wanted.rnr_retry);
  take(kReceivePsn, own.receive_psn, wanted.receive_psn);
  take(kMaxRdAtomic, own.max_rd_atomic, wanted.max_rd_atomic);
  take(kMinRnrTimer, own.min_rnr_timer, wanted.min_rnr_timer);
  take(kSendPsn, own.send_psn, wanted.send_psn);
  take(kMaxDestRdAtomic, own.max_dest_rd_atomic, wanted.max_dest_rd_atomic);
  take(kDestQpn, own.dest_qpn, wanted.dest_qpn);
}

void QueuePair::enter(QpState to, std::uint32_t mask) {
  const QpState from = state();
  if (to == QpState::reset || to == QpState::err) {
    // Over iWARP, what has been posted leaves first: a post may have left it to be gathered.
    if (from == QpState::rts && stream_ != nullptr) {
      finish_path_negotiation();
      transmit_locked(monotonic_now());
    }
    if (state() != QpState::err) send_pending_responses();
    return to == QpState::reset ? forget_everything() : enter_error();
  }
  constexpr std::uint32_t kResponderAttributes = kAccessFlags | kMinRnrTimer | kMaxDestRdAtomic;
  if (stream_ != nullptr) {
    if ((mask & kResponderAttributes) != 0) {
      configure_stream();
      change_target();
    }
  } else if (is_connected()) {
    if (from == QpState::init && to == QpState::rtr) {
      start_responder();
    } else if ((mask & kResponderAttributes) != 0 && from != QpState::init &&
               from != QpState::reset) {
      responder_.change(attributes_.access, attributes_.min_rnr_timer);
      change_target();
    }
    if (from == QpState::rtr && to == QpState::rts) start_requester();
  } else if (is_datagram()) {
    if (from == QpState::init && to == QpState::rtr) {
      open_target();
    } else if ((mask & kQKey) != 0 && from != QpState::reset && from != QpState::init) {
      change_target();
    }
  }
  drain_reported_ = to == QpState::sqd && from == QpState::sqd && drain_reported_;
  set_state(to);
  if (to == QpState::sqd) check_drained();
  if (to == QpState::rts && from != QpState::rts) {
    handed_ = std::max(handed_, send_queue_.completed());
    transmit_locked(monotonic_now());
  }
}

void QueuePair::start_responder() {
  responder_.configure({.service = service_of(type()),
                        .dest_qp = attributes_.dest_qpn,
                        .expected_psn = attributes_.receive_psn,
                        .path_mtu = attributes_.path_mtu,
                        .max_dest_rd_atomic = attributes_.max_dest_rd_atomic,
                        .min_rnr_timer = attributes_.min_rnr_timer,
                        .access = attributes_.access,
                        .pd = options_.pd,
                        .own_qp = number_});
  record_->dest_qpn.store(attributes_.dest_qpn.value(), std::memory_order_relaxed);
  record_->dest_gid = attributes_.address.dest_gid;
  open_target();
}

void QueuePair::start_requester() {
  requester_.configure({.service = service_of(type()),
                        .dest_qp = attributes_.dest_qpn,
                        .first_psn = attributes_.send_psn,
                        .path_mtu = attributes_.path_mtu,
                        .timeout = attributes_.timeout,
                        .retry_count = attributes_.retry_count,
                        .rnr_retry = attributes_.rnr_retry,
                        .max_rd_atomic = attributes_.max_rd_atomic});
  open_link();
}

/// Any state to RESET: as new; requests vanish without completions (IBA 10.3.1.1).
void QueuePair::forget_everything() {
  close_target();
  forget_stream();
  link_.reset();
  paths_.clear();
  set_state(QpState::reset);
  attributes_ = {};
  send_queue_.clear();
  handed_ = 0;
  requester_.reset();
  responder_.reset();
  while (receive_queue_ != nullptr && receive_queue_->take(current_receive_)) {
  }
  holds_receive_ = false;
  tagged_ = {};
  fatal_ = drain_reported_ = held_back_ = false;
  pacer_ = {};
  armed_deadline_ = kNever;
  record_->dest_qpn.store(0, std::memory_order_relaxed);
  if (options_.send_cq != nullptr) options_.send_cq->forget(number_);
  if (options_.receive_cq != nullptr) options_.receive_cq->forget(number_);
  if (options_.shared_receive != nullptr && options_.shared_receive->matches_tags()) {
    options_.shared_receive->options().cq->forget(number_);
  }
}

QueuePairAttributes QueuePair::query() {
  const std::lock_guard guard(lock_);
  take_notifications();
  QueuePairAttributes now = attributes_;
  now.state = now.current_state = state();
  now.capacity = options_.capacity;
  if (!is_connected() || state() == QpState::reset || state() == QpState::init) return now;
  now.receive_psn = responder_.expected_psn();
  if (state() != QpState::rtr) now.send_psn = requester_.next_psn();
  return now;
}

}  // namespace verbatim::adapter

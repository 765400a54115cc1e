#include "adapter/adapter.h"
#include "adapter/direct/execute.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/always_inline.h"
#include "base/log.h"

/// A queue pair on the direct path: its requests are executed by its own thread, its peer's by the
/// peer's.
namespace verbatim::adapter {

using transport::Status;
using Outcome = DirectLink::Outcome;

/// Tags are matched in private memory, and imported regions are memory that peers do not have:
/// queue pairs that have to do with them stay on the wire.
bool QueuePair::may_be_direct() const {
  const bool matches_tags =
      options_.shared_receive != nullptr && options_.shared_receive->matches_tags();
  return adapter_.membership().memory != nullptr && !matches_tags && !options_.is_imported &&
         (is_connected() || is_datagram());
}

/// While any queue pair of the program takes the wire, each poll looks at the sockets.
void QueuePair::note_wire_use() {
  const QpState now = state();
  const bool is_on_wire = link_ == nullptr || (stream_ != nullptr && stream_->is_polled);
  const bool uses =
      now != QpState::reset && now != QpState::init && now != QpState::err && is_on_wire;
  if (std::exchange(uses_wire_, uses) == uses) return;
  adapter_.progress().add_wire_users(uses ? 1 : -1);
}

/// Of the end that has the GID, towards the peer or of it.
arena::PeerName QueuePair::name_on_direct_path(const SocketAddress& peer, const Gid& gid) const {
  if (stream_ != nullptr) return {cookie_as_gid(), arena::PathKind::stream};
  return {gid, arena::kind_of(roce_path(peer))};
}

/// Null where the queue pair is not on this machine, of another user, or takes the wire.
std::unique_ptr<DirectLink> QueuePair::link_to(const DatagramPathKey& key) {
  auto peer = adapter_.peers().find_peer(key.address, key.qpn);
  const std::uint32_t local_number = key.qpn.value() % kProgramQueuePairsMax;
  if (peer == nullptr || peer->target(local_number).qpn != key.qpn.value()) return nullptr;
  return std::make_unique<DirectLink>(
      std::move(peer),
      DirectLink::Config{.reliable = is_reliable(),
                         .own_qpn = number_,
                         .own_name = name_on_direct_path(
                             key.address, adapter_.port().gids()[key.source_gid_index].gid),
                         .peer_qpn = key.qpn,
                         .timeout = attributes_.timeout,
                         .retry_count = attributes_.retry_count,
                         .rnr_retry = attributes_.rnr_retry,
                         .rnr_grace = adapter_.membership().rnr_grace,
                         .has_stream = stream_ != nullptr,
                         .find_queue_owner = [this, address = key.address](SrqNumber number) {
                           return adapter_.peers().find_peer(address, Qpn(raw(number)));
                         }});
}

/// To the peer that the address vector names, if it takes the path as well.
void QueuePair::open_link() {
  link_.reset();
  if (!may_be_direct()) return;
  link_ = link_to({peer_, attributes_.address.source_gid_index, attributes_.dest_qpn});
}

void QueuePair::open_target() {
  if (!may_be_direct() || type() == QpType::xrc_send) return;  // Whom nobody asks.
  adapter_.peers().set_exposed(number_, true);
  const TargetLock target_lock(target_);
  target_.xrc_domain = options_.xrc_domain;
  target_.xrc_file = options_.xrc_file;
  target_.receive_srq = {};
  target_.pd = target_.receive_pd = options_.pd;
  if (const SharedReceiveQueue* const shared = options_.shared_receive) {
    target_.receive_pd = shared->options().pd;
    target_.receives = shared->ring();
  } else if (receive_queue_ != nullptr) {
    target_.receives = receive_queue_->ring();
  }
  if (options_.receive_cq != nullptr) target_.receive_cq = options_.receive_cq->ring();
  target_.access = attributes_.access;
  target_.peer_name = name_on_direct_path(peer_, attributes_.address.dest_gid);
  target_.min_rnr_timer = attributes_.min_rnr_timer;
  target_.max_dest_rd_atomic = attributes_.max_dest_rd_atomic;
  target_.established = false;
  target_.holds_receive = false;
  target_.owner_request.state.store(OwnerRequest::none, std::memory_order_relaxed);
  target_.notifications.store(0, std::memory_order_relaxed);
  target_.qkey = attributes_.qkey;
  target_.takes_datagrams = is_datagram();
  target_.awaits_direct_peer = false;
  target_.peer_qpn = attributes_.dest_qpn;
}

void QueuePair::change_target() {
  if (!may_be_direct()) return;
  const TargetLock target_lock(target_);
  target_.qkey = attributes_.qkey;
  target_.access = attributes_.access;
  target_.min_rnr_timer = attributes_.min_rnr_timer;
}

void QueuePair::close_target() {
  queue_owners_.leave(number_);
  if (!may_be_direct()) return;
  const TargetLock target_lock(target_);
  target_.stop_serving();
  adapter_.peers().set_exposed(number_, false);
  recover_target(target_, adapter_.arena().base());
  if (target_.holds_receive && type() == QpType::xrc_receive) flush_held();
  target_.receives = {};
  target_.receive_cq = {};
  if (!target_.holds_receive) return;
  target_.holds_receive = false;
  current_receive_ = target_.receive;
  holds_receive_ = true;
}

/// XRC: the receive that the target holds is from a queue that the queue pair does not know.
void QueuePair::flush_held() {
  adapter_.peers().own()->end_receive(number_.value() % kProgramQueuePairsMax,
                                      {.wr_id = target_.receive.wr_id,
                                       .status = Status::flushed,
                                       .opcode = CompletionOpcode::receive,
                                       .qpn = number_.value()},
                                      false);
}

/// The queue is being destroyed, and peers find it no more.
bool QueuePair::forget_held(SrqNumber srq) {
  if (!may_be_direct()) return false;
  const TargetLock target_lock(target_);
  if (target_.receive_srq != srq) return false;
  recover_target(target_, adapter_.arena().base());
  target_.receives = {};
  target_.receive_cq = {};
  target_.receive_srq = {};
  return target_.holds_receive.exchange(false);
}

LocalMemory QueuePair::local_memory(transport::Slot slot) {
  if (send_queue_.wqe(slot).inlined) return local_memory({}, send_queue_.inline_bytes(slot));
  return local_memory(send_queue_.segments(slot), {});
}

/// A request has failed: the queue pair stops.
void QueuePair::end_direct(std::uint64_t wr_id, const transport::SendRequest& request,
                           Status status) {
  log(LogLevel::info, "QP {:#x}: request {:#x} ({}, {} bytes) to QP {:#x} ends with status {}",
      number_.value(), wr_id, raw(request.operation), request.length, attributes_.dest_qpn.value(),
      raw(status));
  if (is_reliable()) {
    fatal_ = true;
  } else {
    enter_send_queue_error();
  }
}

void QueuePair::transmit_direct(TimeNs now) {
  // Tried again at the program's next poll, or when its time has come.
  const auto come_again = [this, now](bool at_once) {
    adapter_.progress().note_output(*this);
    if (at_once) adapter_.progress().arm_timer(now, number_);
  };
  std::uint64_t moved = 0;
  while (handed_ < send_queue_.posted() && !fatal_) {
    if (moved >= DirectLink::kBytesPerCall) return come_again(true);
    // SQD begins nothing new, but finishes what it has begun.
    const QpState current = state();
    if (current != QpState::rts && !(current == QpState::sqd && link_->has_begun())) return;
    const transport::Slot slot = handed_;
    const SendWqe& wqe = send_queue_.wqe(slot);
    const transport::SendRequest& request = wqe.request;
    if (!may_send(now)) return;
    Status status = Status::success;
    if (transport::info(request.operation).is_local) {
      status = carry_out(slot);
    } else {
      const Outcome outcome = link_->execute(request, local_memory(slot));
      count_direct(*link_, outcome, request.length);
      if (outcome != Outcome::completed) return come_again(outcome == Outcome::unfinished);
      status = link_->status();
      moved += request.length;
    }
    pacer_.count(now, request.length + kWireOverheadBytes);
    ++handed_;
    const std::uint64_t wr_id = wqe.wr_id;
    complete_send(slot, status);
    if (status == Status::success) continue;
    end_direct(wr_id, request, status);
    return;
  }
}

void QueuePair::on_notifications() {
  const std::lock_guard guard(lock_);
  take_notifications();
}

void QueuePair::take_notifications() {
  if (target_.notifications.load(std::memory_order_relaxed) == 0) return;
  const std::uint32_t notifications = target_.notifications.exchange(0, std::memory_order_seq_cst);
  if ((notifications & kEstablished) != 0 && state() == QpState::rtr) {
    raise(AsyncEventType::communication_established);
  }
  if ((notifications & kOwnerRequest) != 0) serve_owner_request();
  if ((notifications & kSrqLimitReached) != 0 && options_.shared_receive != nullptr) {
    options_.shared_receive->report_limit();
  }
  if ((notifications & kReceiveCompleted) != 0) options_.receive_cq->notify_channel();
  if ((notifications & kCompletionsOverrun) != 0) options_.receive_cq->report_overrun();
  if (state() == QpState::reset || state() == QpState::init || state() == QpState::err) return;
  if ((notifications & kRequestError) != 0) raise(AsyncEventType::qp_request_error);
  if ((notifications & kAccessError) != 0) raise(AsyncEventType::qp_access_error);
  if ((notifications & (kRequestError | kAccessError | kFailed)) != 0) fail();
}

void QueuePair::on_peer_gone(const DirectPeer& peer) {
  const std::lock_guard guard(lock_);
  std::erase_if(paths_, [&peer](const auto& one) {
    return one.second.link != nullptr && &one.second.link->peer() == &peer;
  });
  queue_owners_.forget(peer);
  if (link_ == nullptr) return;
  link_->forget_queue_owner(peer);
  if (&link_->peer() == &peer) transmit_locked(monotonic_now());
}

void QueuePair::on_attached_peer_gone() {
  const std::lock_guard guard(lock_);
  if (!may_be_direct()) return;
  if (options_.receive_cq != nullptr) options_.receive_cq->recover();
  take_notifications();
}

/// What the peer's processor cannot do.
void QueuePair::serve_owner_request() {
  if (target_.owner_request.state.load(std::memory_order_acquire) != OwnerRequest::asked) return;
  if (target_.owner_request.kind == OwnerRequest::allocate_proxy) return answer_allocate_proxy();
  answer(target_.owner_request, regions_, {target_.pd, number_});
}

}  // namespace verbatim::adapter

#include "adapter/queue_pair/core/direct_end.h"

#include <utility>

#include "adapter/direct/execute.h"
#include "adapter/direct/peers.h"
#include "base/log.h"
#include "port/port.h"
#include "wire/ib/bth.h"

namespace verbatim::adapter {

using transport::Status;

namespace {

/// A target that was given up is in use again once its holder has released the lock.
void renew(const DirectEnd& end, DirectTarget& target, Qpn number) {
  if (!take_back(target)) return;
  target.qpn.store(end.is_allowed() ? number.value() : 0, std::memory_order_release);
}

}  // namespace

DirectEnd::DirectEnd(QueuePairCore& core, DirectTarget& target) : core_(core), target_(target) {
  target_.qpn.store(0, std::memory_order_release);
  renew(*this, target_, core.number);
}

bool DirectEnd::is_allowed() const {
  const QueuePairOptions& options = core_.options;
  return core_.around.has_direct_path && !options.matches_tags() && !options.is_imported &&
         options.type != QpType::raw_packet && !target_.given_up.load(std::memory_order_relaxed);
}

bool DirectEnd::may_be_here(const Path& path) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return !address_of(path).empty();
  return core_.port().lids().contains(infiniband->dlid);
}

arena::PeerName DirectEnd::own_name_on(const Path& path, const Gid& gid) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return {gid, arena::kind_of(path)};
  return arena::infiniband_name(infiniband->slid, infiniband->dlid, core_.pkey);
}

arena::PeerName DirectEnd::name_of_peer(const Gid& gid) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&core_.peer);
  if (infiniband == nullptr) return {gid, arena::kind_of(core_.peer)};
  if (target_.pkey == PKey{} || !may_be_here(core_.peer)) return {};
  return arena::as_full_member(
      arena::infiniband_name(infiniband->dlid, infiniband->slid, target_.pkey));
}

/// Requires the target's lock. As a port that is not ACTIVE discards packets, peers get no answer
/// then.
void DirectEnd::show_port() {
  const port::Port& port = core_.port();
  if (!port.is_infiniband()) return;
  const bool is_reached = port.state().is_active && wire::is_valid(core_.pkey);
  target_.pkey = is_reached ? core_.pkey : PKey{};
  target_.pkey_index = core_.attributes.pkey_index;
  target_.port = port.number();
}

/// By the sender, which is on the same port as the receiver.
void DirectEnd::report_bad_key(const Path& path, Qpn peer, std::optional<QKey> q_key) const {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return;
  const GlobalRoute grh = infiniband->grh.value_or(GlobalRoute{});
  core_.around.report_bad_key(infiniband->port,
                              q_key ? wire::TrapNumber::bad_q_key : wire::TrapNumber::bad_p_key,
                              {.source_lid = infiniband->slid,
                               .destination_lid = infiniband->dlid,
                               .key = q_key ? raw(*q_key) : raw(core_.pkey),
                               .service_level = infiniband->service_level,
                               .source_qpn = core_.type() == QpType::ud ? core_.number.value() : 0,
                               .destination_qpn = peer.value(),
                               .source_gid = grh.source,
                               .destination_gid = grh.destination});
}

std::unique_ptr<DirectLink> DirectEnd::link_to(const Path& path, Qpn peer_number,
                                               const Gid& own_name) {
  if (!may_be_here(path)) return nullptr;
  PeerDirectory& peers = core_.around.peers;
  const SocketAddress address = address_of(path);
  auto peer = peers.find_peer(address, peer_number);
  const std::uint32_t local_number = peer_number.value() % kProgramQueuePairsMax;
  if (peer == nullptr || peer->target(local_number).qpn != peer_number.value()) return nullptr;
  const QueuePairAttributes& attributes = core_.attributes;
  return std::make_unique<DirectLink>(
      std::move(peer),
      DirectLink::Config{.reliable = core_.is_reliable(),
                         .own_qpn = core_.number,
                         .peer_qpn = peer_number,
                         .timeout = attributes.timeout,
                         .retry_count = attributes.retry_count,
                         .rnr_retry = attributes.rnr_retry,
                         .rnr_grace = core_.around.rnr_grace,
                         .has_stream = core_.around.is_iwarp,
                         .find_queue_owner =
                             [&peers, address](SrqNumber number) {
                               return peers.find_peer(address, Qpn(raw(number)));
                             },
                         .report_bad_key =
                             [this, path, peer_number](std::optional<QKey> q_key) {
                               report_bad_key(path, peer_number, q_key);
                             }},
      own_name_on(path, own_name));
}

std::unique_ptr<DirectLink> DirectEnd::link_to(const Path& path, Qpn peer,
                                               std::uint8_t source_gid_index) {
  return link_to(path, peer, core_.port().gid(source_gid_index));
}

void DirectEnd::open_link() {
  link_.reset();
  if (!is_allowed()) return;
  link_ = link_to(core_.peer, core_.attributes.dest_qpn, core_.attributes.address.source_gid_index);
}

void DirectEnd::open_target(const Gid& peer_name) {
  const QueuePairOptions& options = core_.options;
  renew(*this, target_, core_.number);
  if (!is_allowed() || options.type == QpType::xrc_send) return;  // Whom nobody asks.
  core_.around.peers.set_exposed(core_.number, true);
  // A peer that only lacks a processor is waited for: without a target it would lose its requests.
  if (!lock_target(kSecond)) return;
  const TargetLock target_lock(target_, std::adopt_lock);
  target_.xrc_domain = options.xrc_domain;
  target_.xrc_file = options.xrc_file;
  target_.receive_srq = {};
  target_.pd = target_.receive_pd = options.pd;
  if (const SharedReceiveQueue* const shared = options.shared_receive) {
    target_.receive_pd = shared->options().pd;
    target_.receives = shared->ring();
  } else if (core_.receives.own != nullptr) {
    target_.receives = core_.receives.own->ring();
  }
  if (options.receive_cq != nullptr) target_.receive_cq = options.receive_cq->ring();
  const QueuePairAttributes& attributes = core_.attributes;
  target_.access = attributes.access;
  show_port();
  target_.peer_name = name_of_peer(peer_name);
  target_.min_rnr_timer = attributes.min_rnr_timer;
  target_.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  target_.established = false;
  target_.holds_receive = false;
  target_.owner_request.state.store(OwnerRequest::none, std::memory_order_relaxed);
  target_.notifications.store(0, std::memory_order_relaxed);
  target_.qkey = attributes.qkey;
  target_.takes_datagrams = options.type == QpType::ud;
  target_.awaits_direct_peer = false;
  target_.peer_qpn = attributes.dest_qpn;
}

void DirectEnd::invite(const Gid& name) {
  open_target(name);  // It serves nobody yet.
  if (!is_allowed()) return;
  const TargetLock target_lock(target_);
  target_.awaits_direct_peer = true;
}

Qpn DirectEnd::take_invitee() {
  if (!is_allowed()) return {};
  const TargetLock target_lock(target_);
  target_.awaits_direct_peer = false;
  return target_.peer_qpn;
}

void DirectEnd::change_target() {
  if (!is_allowed()) return;
  // A stopped peer goes on with these or with the old ones, as a packet that has just arrived.
  std::optional<TargetLock> target_lock;
  if (lock_soon(target_)) target_lock.emplace(target_, std::adopt_lock);
  target_.qkey = core_.attributes.qkey;
  target_.access = core_.attributes.access;
  target_.min_rnr_timer = core_.attributes.min_rnr_timer;
}

void DirectEnd::follow_port() {
  if (!is_allowed() || !core_.port().is_infiniband()) return;
  if (link_ != nullptr) link_->set_own_name(own_name_on(core_.peer, {}));
  const TargetLock target_lock(target_);
  show_port();
  target_.peer_name = name_of_peer({});
}

bool DirectEnd::lock_target(TimeNs patience) {
  for (const TimeNs end = monotonic_now() + patience; monotonic_now() < end;) {
    if (lock_soon(target_)) return true;
  }
  if (lock_or_give_up(target_)) return true;
  log(LogLevel::info, "QP {:#x}: its peer is stopped amid a request, which is given up",
      core_.number.value());
  target_.qpn.store(0, std::memory_order_release);
  target_.notifications.store(0, std::memory_order_relaxed);
  return false;
}

void DirectEnd::close_target() {
  queue_owners_.leave(core_.number);
  renew(*this, target_, core_.number);
  if (!is_allowed()) return;
  if (!lock_target()) return take_held();
  const TargetLock target_lock(target_, std::adopt_lock);
  target_.stop_serving();
  core_.around.peers.set_exposed(core_.number, false);
  recover_target(target_, core_.around.arena.base());
  take_held();
  target_.receives = {};
  target_.receive_cq = {};
}

/// The receive that the target holds becomes the core's.
void DirectEnd::take_held() {
  if (target_.holds_receive && core_.type() == QpType::xrc_receive) flush_held();
  if (!target_.holds_receive) return;
  target_.holds_receive = false;
  core_.receives.current = target_.receive;
  core_.receives.holds = true;
}

/// XRC: the receive that the target holds is from a queue that the queue pair does not know.
void DirectEnd::flush_held() {
  core_.around.peers.own()->end_receive(core_.number.value() % kProgramQueuePairsMax,
                                        {.wr_id = target_.receive.wr_id,
                                         .status = Status::flushed,
                                         .opcode = CompletionOpcode::receive,
                                         .qpn = core_.number.value()},
                                        false);
}

bool DirectEnd::forget_queue(SrqNumber srq) {
  if (!is_allowed()) return false;
  const TargetLock target_lock(target_);
  if (target_.receive_srq != srq) return false;
  recover_target(target_, core_.around.arena.base());
  target_.receives = {};
  target_.receive_cq = {};
  target_.receive_srq = {};
  return target_.holds_receive.exchange(false);
}

void DirectEnd::end(std::uint64_t wr_id, const transport::SendRequest& request, Status status) {
  log(LogLevel::info, "QP {:#x}: request {:#x} ({}, {} bytes) to QP {:#x} ends with status {}",
      core_.number.value(), wr_id, raw(request.operation), request.length,
      core_.attributes.dest_qpn.value(), raw(status));
  if (core_.is_reliable()) {
    core_.fatal = true;
  } else {
    core_.enter_send_queue_error();
  }
}

void DirectEnd::transmit(TimeNs now) {
  std::uint64_t moved = 0;
  while (core_.handed < core_.sends.posted() && !core_.fatal) {
    if (moved >= DirectLink::kBytesPerCall) return core_.come_again(now);
    if (!may_execute()) return;
    const transport::Slot slot = core_.handed;
    const SendWqe& wqe = core_.sends.wqe(slot);
    const transport::SendRequest& request = wqe.request;
    if (!core_.may_send(now)) return;
    Status status = Status::success;
    if (transport::info(request.operation).is_local) {
      status = core_.carry_out(slot);
    } else {
      const Outcome outcome = link_->execute(request, core_.local_memory(slot));
      count(*link_, outcome, request.length);
      if (outcome == Outcome::unfinished) return core_.come_again(now);
      if (outcome == Outcome::waits) {
        // A program that polls tries at each poll; else the queue pair's timer does.
        if (core_.around.progress.is_polled()) core_.come_again();
        return;
      }
      status = link_->status();
      moved += request.length;
    }
    core_.pacer.count(now, request.length + kWireOverheadBytes);
    ++core_.handed;
    const std::uint64_t wr_id = wqe.wr_id;
    core_.complete_send(slot, status);
    if (status == Status::success) continue;
    return end(wr_id, request, status);
  }
}

bool DirectEnd::take_notifications() {
  if (target_.notifications.load(std::memory_order_relaxed) == 0) return false;
  const std::uint32_t notifications = target_.notifications.exchange(0, std::memory_order_seq_cst);
  const QueuePairOptions& options = core_.options;
  if ((notifications & kEstablished) != 0 && core_.state() == QpState::rtr) {
    core_.raise(AsyncEventType::communication_established);
  }
  if ((notifications & kOwnerRequest) != 0) serve_owner_request();
  if ((notifications & kSrqLimitReached) != 0 && options.shared_receive != nullptr) {
    options.shared_receive->report_limit();
  }
  if (CompletionQueue* const cq = options.receive_cq) {  // XRC: the queues of receives have theirs.
    if ((notifications & kReceiveCompleted) != 0) cq->notify_channel();
    if ((notifications & kCompletionsOverrun) != 0) cq->report_overrun();
  }
  const QpState now = core_.state();
  if (now == QpState::reset || now == QpState::init || now == QpState::err) return false;
  if ((notifications & kRequestError) != 0) core_.raise(AsyncEventType::qp_request_error);
  if ((notifications & kAccessError) != 0) core_.raise(AsyncEventType::qp_access_error);
  return (notifications & (kRequestError | kAccessError | kFailed)) != 0;
}

bool DirectEnd::on_attached_peer_gone() {
  if (!is_allowed()) return false;
  if (core_.options.receive_cq != nullptr) core_.options.receive_cq->recover();
  return take_notifications();
}

bool DirectEnd::on_peer_gone(const DirectPeer& peer) {
  queue_owners_.forget(peer);
  if (link_ == nullptr) return false;
  link_->forget_queue_owner(peer);
  return &link_->peer() == &peer;
}

/// What the peer's processor cannot do.
void DirectEnd::serve_owner_request() {
  OwnerRequest& wanted = target_.owner_request;
  if (wanted.state.load(std::memory_order_acquire) != OwnerRequest::asked) return;
  if (wanted.kind != OwnerRequest::allocate_proxy) {
    return answer(wanted, core_.regions, {target_.pd, core_.number});
  }
  const MappedTarget* const queue_owner = queue_owner_of(SrqNumber{wanted.key});
  if (queue_owner != nullptr) wanted.original = queue_owner->local_number();
  wanted.state.store(queue_owner != nullptr ? OwnerRequest::done : OwnerRequest::refused,
                     std::memory_order_release);
}

MappedTarget* DirectEnd::queue_owner_of(SrqNumber number) {
  if (MappedTarget* const known = known_queue_owner(number)) return known;
  const XrcFile& file = core_.options.xrc_file;
  if (!file.exists()) return nullptr;
  const SocketAddress& own = core_.port().gids()[core_.attributes.address.source_gid_index].address;
  auto peer = core_.around.peers.find_peer(own, Qpn(raw(number)));
  if (peer == nullptr || peer->is_own()) return nullptr;
  const XrcQueue& queue = peer->xrc_queue(number);
  const bool is_there =
      queue.number.load(std::memory_order_acquire) == raw(number) && queue.file == file;
  if (!is_there) return nullptr;
  const auto proxy = allocate_proxy(*peer, core_.number);
  if (proxy) return queue_owners_.add(std::move(peer), number, *proxy);
  log(LogLevel::warn,
      "QP {:#x}: the program of XRC queue {:#x} serves {} queue pairs of others already",
      core_.number.value(), raw(number), kProxyTargetsMax);
  return nullptr;
}

}  // namespace verbatim::adapter

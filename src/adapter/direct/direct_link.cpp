#include "adapter/direct/direct_link.h"

#include <algorithm>
#include <utility>

#include "base/always_inline.h"
#include "base/os/fence.h"
#include "transport/ib/responder/responder_checks.h"
#include "wire/ib/bth.h"

namespace verbatim::adapter {

using transport::Operation;
using transport::SendRequest;
using transport::Status;
using Copied = MappedTarget::Copied;

DirectLink::DirectLink(std::shared_ptr<DirectPeer> peer, const Config& config,
                       const arena::PeerName& own_name)
    : config_(config),
      own_name_(own_name),
      own_(std::move(peer), config.peer_qpn.value() % kProgramQueuePairsMax),
      target_(own_.target()),
      at_(&own_) {}

bool DirectLink::accept() {
  if (!own_.lock_soon()) return false;
  const TargetLock target_lock(target_, std::adopt_lock);
  if (!is_there() || !target_.awaits_direct_peer || target_.peer_name != own_name_) return false;
  target_.awaits_direct_peer = false;
  target_.peer_qpn = config_.own_qpn;
  return true;
}

/// Refuses the request as a NAK would: the target serves no more requests, its owner is notified
/// (and goes to the error state), and the request completes with `status`. UC and UD: the message
/// is dropped, the request completes with success.
DirectLink::Outcome DirectLink::refuse(Status status, std::uint32_t notifications) {
  if (!config_.reliable) return complete(Status::success);
  target_.stop_serving();
  notify(notifications);
  return complete(status);
}

/// Completes the current receive in error. The completion reports it, so there is no asynchronous
/// event.
DirectLink::Outcome DirectLink::fail_receive(Status receives, Status sends) {
  const Completion completion{.wr_id = at_->target().receive.wr_id,
                              .status = receives,
                              .opcode = CompletionOpcode::receive,
                              .qpn = config_.peer_qpn.value(),
                              .source_qpn = config_.own_qpn.value()};
  has_arrived_ = at_->end_receive(completion, false) != MappedTarget::Ended::refused;
  target_.stop_serving();
  notify(kFailed);
  return complete(config_.reliable ? sends : Status::success);
}

VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::attempt(const SendRequest& request,
                                                               const LocalMemory& local) {
  if (peer().is_gone()) return no_answer();
  if (!own_.lock_soon()) return busy();
  const TargetLock target_lock(target_, std::adopt_lock);
  if (!is_served()) return not_served();
  if (!target_.established) {
    target_.established = true;
    notify(kEstablished);
  }
  const Outcome outcome = execute_locked(request, local);
  return was_given_up() ? given_up() : outcome;
}

/// The owner has given up the target, as this process was stopped, or was about to, before the
/// request had arrived.
VERBATIM_ALWAYS_INLINE bool DirectLink::was_given_up() {
  if (std::exchange(has_arrived_, false)) return false;
  return target_.given_up.load(std::memory_order_relaxed) || own_.was_refused() ||
         at_->was_refused();
}

/// Nothing has arrived.
DirectLink::Outcome DirectLink::given_up() {
  own_.forget_refusal();
  at_->forget_refusal();
  target_.stop_serving();
  begun_ = false;
  moved_ = 0;
  return no_answer();
}

/// XRC: the request names a receive queue, of the target's process or, if the XRC domain has a
/// file, of another process.
VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::execute_locked(const SendRequest& request,
                                                                      const LocalMemory& local) {
  at_ = &own_;
  const SrqNumber srq = request.remote_srq;
  const bool is_here = raw(target_.xrc_domain) == 0 || target_.enter(peer().xrc_queue(srq), srq);
  if (is_here) return execute_there(request, local);
  return target_.xrc_file.exists() ? execute_at_queue_owner(request, local) : refuse_request();
}

DirectLink::Outcome DirectLink::execute_at_queue_owner(const SendRequest& request,
                                                       const LocalMemory& local) {
  const SrqNumber srq = request.remote_srq;
  if (MappedTarget* const queue_owner = queue_owners_.find(srq, config_.peer_qpn)) {
    DirectTarget& proxy = queue_owner->target();
    if (!queue_owner->lock_soon()) return busy();
    const TargetLock target_lock(proxy, std::adopt_lock);
    if (proxy.qpn == config_.peer_qpn.value()) {
      if (!proxy.enter(queue_owner->peer().xrc_queue(srq), srq, target_.xrc_file))
        return refuse_request();
      at_ = queue_owner;
      return execute_there(request, local);
    }
  }
  const Outcome outcome = request_owner({.kind = OwnerRequest::allocate_proxy, .key = raw(srq)});
  if (outcome != Outcome::completed || status_ != Status::success) return outcome;
  found_proxy_ = static_cast<std::uint32_t>(target_.owner_request.original);
  return look_again();
}

/// Checks in the order of IBA 9.7.4.1: operation, resources, lengths and keys.
VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::execute_there(const SendRequest& request,
                                                                     const LocalMemory& local) {
  const auto& info = transport::info(request.operation);
  const std::uint32_t right = transport::right_for(info.verb);
  if ((target_.access & right) != right ||
      (info.awaits_response && target_.max_dest_rd_atomic == 0)) {
    return refuse_request();
  }
  switch (request.operation) {
    case Operation::send:
    case Operation::send_with_immediate:
    case Operation::send_with_invalidate:
      return send(request, local);
    case Operation::write:
    case Operation::write_with_immediate:
      return write(request, local);
    case Operation::read:
      return read(request, local);
    case Operation::compare_and_swap:
    case Operation::fetch_and_add:
    case Operation::atomic_write:
      return atomic(request, local);
    case Operation::flush:
      return flush(request);
    default:
      return refuse_request();
  }
}

VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::send(const SendRequest& request,
                                                            const LocalMemory& local) {
  const DirectPeer& there = at_->peer();
  const DirectTarget& target = at_->target();
  there.at(target.receive_cq)->prefetch_next(there.base());
  if (!take_receive()) return not_ready();
  if (request.operation == Operation::send_with_invalidate && !begun_ &&
      !there.regions().check_invalidation_locked(request.remote_key,
                                                 {target.pd, config_.peer_qpn})) {
    return refuse_access();
  }
  if (request.length > target.receive.capacity_bytes) {
    // UC: the receive is used for the next message.
    if (!config_.reliable) return complete(Status::success);
    return fail_receive(Status::local_length_error, Status::remote_invalid_request);
  }
  begun_ = true;
  const auto part = std::min(request.length - moved_, kBytesPerCall);
  switch (at_->copy_to_receive(local, moved_, part)) {
    case Copied::here_refused:
      return complete(Status::local_protection_error);
    case Copied::there_refused:
      return fail_receive(Status::local_protection_error, Status::remote_operation_error);
    case Copied::later:
      return look_again();
    case Copied::all:
      break;
  }
  moved_ += part;
  return moved_ < request.length ? Outcome::unfinished : deliver(request);
}

/// Moves the bytes of a WRITE or READ, as many as one call may; returns nothing when all are moved.
VERBATIM_ALWAYS_INLINE std::optional<DirectLink::Outcome> DirectLink::move_bytes(
    const SendRequest& request, const LocalMemory& local, bool to_peer) {
  if (moved_ == request.length) return std::nullopt;
  const auto region =
      find_locked(request, request.length, to_peer ? region::kRemoteWrite : region::kRemoteRead);
  if (!region) return refuse_access();
  begun_ = true;
  const auto part = std::min(request.length - moved_, kBytesPerCall);
  const std::uint64_t there = address_in(**region, request.remote_address);
  switch (at_->copy(**region, there + moved_, local, moved_, part, to_peer)) {
    case Copied::here_refused:
      return complete(Status::local_protection_error);
    case Copied::there_refused:
      return refuse_access();
    case Copied::later:
      return look_again();
    case Copied::all:
      break;
  }
  moved_ += part;
  if (moved_ < request.length) return Outcome::unfinished;
  return std::nullopt;
}

VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::write(const SendRequest& request,
                                                             const LocalMemory& local) {
  const bool immediate = request.operation == Operation::write_with_immediate;
  if (const auto ended = move_bytes(request, local, true)) return *ended;
  if (!immediate) return serve(request);
  begun_ = true;
  return take_receive() ? deliver(request) : not_ready();
}

/// UD: drops the message without an error to the sender, unless the sender's own buffer is bad
/// (local_protection_error).
DirectLink::Outcome DirectLink::lose(const LocalMemory& local) {
  return complete(local.is_good(region::kLocalRead) ? Status::success
                                                    : Status::local_protection_error);
}

/// InfiniBand: as a packet is checked, before the Q_Key is.
bool DirectLink::takes_from_port(const port::Datagram& datagram) const {
  if (datagram.origin.port != target_.port) {  // That port has no such queue pair.
    peer().header().port_counters.dropped_no_qp.add();
    return false;
  }
  const bool fits = wire::pkeys_match(datagram.pkey, target_.pkey);
  if (!fits && target_.pkey != PKey{}) on_bad_p_key();
  return fits;
}

DirectLink::Outcome DirectLink::send_datagram(const SendRequest& request, const LocalMemory& local,
                                              const port::Datagram& datagram) {
  TimeNs end_of_waits = 0;
  do {
    if (!own_.lock_soon()) return lose(local);
    const TargetLock target_lock(target_, std::adopt_lock);
    const auto outcome = deliver_datagram(request, local, datagram);
    if (was_given_up()) return given_up();
    if (outcome) return *outcome;
  } while (own_.wait_while_memory_moves(end_of_waits));
  return lose(local);
}

/// Returns nothing if the owner moves its memory.
std::optional<DirectLink::Outcome> DirectLink::deliver_datagram(const SendRequest& request,
                                                                const LocalMemory& local,
                                                                const port::Datagram& datagram) {
  if (!is_there() || !target_.takes_datagrams) return lose(local);
  if (datagram.origin.port != 0 && !takes_from_port(datagram)) return lose(local);
  if (datagram.qkey != target_.qkey) {
    on_bad_q_key(datagram.qkey);
    return lose(local);
  }
  if (!take_receive()) return lose(local);
  const std::uint64_t bytes = wire::Grh::kSize + request.length;
  if (bytes > target_.receive.capacity_bytes) {
    return fail_receive(Status::local_length_error, Status::success);
  }
  const bool immediate = transport::info(request.operation).immediate;
  const port::DatagramHeader header(datagram.flow, immediate, request.length);
  const LocalMemory front{
      .regions = local.regions, .segments = {}, .inlined = header.grh, .cache = local.cache};
  Copied copied = Copied::all;
  // Without a GRH its 40 bytes stay as they are (IBA 11.4.2.1).
  if (datagram.origin.has_grh) copied = at_->copy_to_receive(front, 0, wire::Grh::kSize);
  if (copied == Copied::all) {
    copied = at_->copy_to_receive(local, 0, request.length, wire::Grh::kSize);
  }
  if (copied == Copied::later) return std::nullopt;
  if (copied == Copied::here_refused) return complete(Status::local_protection_error);
  if (copied == Copied::there_refused) {
    return fail_receive(Status::local_protection_error, Status::success);
  }
  return complete_receive({.wr_id = target_.receive.wr_id,
                           .opcode = CompletionOpcode::receive,
                           .service_level = datagram.origin.service_level,
                           .path_bits = datagram.origin.path_bits,
                           .byte_count = static_cast<std::uint32_t>(bytes),
                           .immediate = immediate ? request.immediate : 0,
                           .qpn = config_.peer_qpn.value(),
                           .source_qpn = config_.own_qpn.value(),
                           .flags = (datagram.origin.has_grh ? kCompletionGrh : 0) |
                                    (immediate ? kCompletionWithImmediate : 0),
                           .pkey_index = target_.pkey_index,
                           .source_lid = datagram.origin.source_lid},
                          request);
}

/// All bytes are there: adds the peer's completion.
VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::deliver(const SendRequest& request) {
  const auto& info = transport::info(request.operation);
  if (info.invalidate) {
    const Outcome ended =
        request_owner({.kind = OwnerRequest::invalidate, .key = raw(request.remote_key)});
    if (ended != Outcome::completed || status_ != Status::success) return ended;
  }
  const bool is_write = info.verb == wire::Verb::write;
  const Completion completion{.wr_id = at_->target().receive.wr_id,
                              .opcode = is_write ? CompletionOpcode::receive_write_with_immediate
                                                 : CompletionOpcode::receive,
                              .byte_count = static_cast<std::uint32_t>(request.length),
                              .immediate = info.invalidate  ? raw(request.remote_key)
                                           : info.immediate ? request.immediate
                                                            : 0,
                              .qpn = config_.peer_qpn.value(),
                              .source_qpn = config_.own_qpn.value(),
                              .flags = (info.immediate ? kCompletionWithImmediate : 0) |
                                       (info.invalidate ? kCompletionWithInvalidate : 0)};
  return complete_receive(completion, request);
}

/// Completes the current receive and the request with success.
VERBATIM_ALWAYS_INLINE DirectLink::Outcome DirectLink::complete_receive(
    const Completion& completion, const SendRequest& request) {
  const auto ended = at_->end_receive(completion, request.solicited);
  has_arrived_ = ended != MappedTarget::Ended::refused;
  if (ended == MappedTarget::Ended::without_room) {
    target_.stop_serving();
    notify(kFailed);
  }
  return serve(request);
}

DirectLink::Outcome DirectLink::read(const SendRequest& request, const LocalMemory& local) {
  const auto ended = move_bytes(request, local, false);
  return ended ? *ended : serve(request);
}

DirectLink::Outcome DirectLink::flush(const SendRequest& request) {
  const wire::Feth& flush = request.flush;
  const std::uint32_t rights = transport::right_for(flush);
  if (!transport::is_known(flush) || (target_.access & rights) != rights) return refuse_request();
  const region::Accessor by{at_->target().pd, config_.peer_qpn};
  const auto& regions = at_->peer().regions();
  const bool may =
      flush.selectivity == wire::Feth::Selectivity::region
          ? regions.check_key_locked(request.remote_key, rights, by).has_value()
          : request.flush_bytes == 0 || find_locked(request, request.flush_bytes, rights);
  if (!may) return refuse_access();
  full_fence();
  return serve(request);
}

/// iWARP: a WRITE or SEND that the peer refused completes with success, as over TCP, where it
/// completes when it is handed to the socket. The end of the stream reports the refusal.
DirectLink::Outcome DirectLink::with_stream(const SendRequest& request, Outcome outcome) {
  const bool is_refused =
      outcome == Outcome::completed &&
      (status_ == Status::remote_access_error || status_ == Status::remote_invalid_request ||
       status_ == Status::remote_operation_error);
  const bool is_answered = transport::info(request.operation).awaits_response;
  return is_refused && !is_answered ? complete(Status::success) : outcome;
}

DirectLink::Outcome DirectLink::execute(const SendRequest& request, const LocalMemory& local) {
  Outcome outcome = attempt(request, local);
  if (found_proxy_) {  // The search for its process needs no lock.
    const std::uint32_t proxy = *std::exchange(found_proxy_, std::nullopt);
    if (auto queue_owner = config_.find_queue_owner(request.remote_srq)) {
      queue_owners_.add(std::move(queue_owner), request.remote_srq, proxy);
      outcome = attempt(request, local);
    }
  }
  if (config_.has_stream) outcome = with_stream(request, outcome);
  if (outcome != Outcome::waits || begun_) return outcome;
  // The local memory is checked before the peer's answer.
  const auto& info = transport::info(request.operation);
  const std::uint32_t right =
      info.data == transport::DataFlow::in ? region::kLocalWrite : region::kLocalRead;
  return local.is_good(right) ? outcome : complete(Status::local_protection_error);
}

}  // namespace verbatim::adapter

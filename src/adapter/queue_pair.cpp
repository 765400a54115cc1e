#include "adapter/queue_pair.h"

#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "base/hot.h"

namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

namespace {

/// What the program may post, one bit for each operation.
std::uint32_t operations_of(const QueuePairOptions& options) {
  static_assert(transport::kOperations <= 32);
  if (options.scaling || options.finishes_rendezvous()) return 0;
  std::uint32_t served = 0;
  for (std::uint32_t i = 0; i < transport::kOperations; ++i) {
    if (serves(options.type, static_cast<Operation>(i))) served |= 1u << i;
  }
  return served;
}

}  // namespace

QueuePair::QueuePair(Adapter& adapter, const QueuePairOptions& options, Qpn number,
                     QueuePairRecord& record, DirectTarget& target, SendQueue send_queue,
                     std::unique_ptr<ReceiveQueue> receive_queue)
    : adapter_(adapter),
      regions_(adapter.regions()),
      options_(options),
      served_(operations_of(options)),
      number_(number),
      record_(&record),
      target_(target),
      listeners_{{options.events, options.owner}},
      send_queue_(std::move(send_queue)),
      receive_queue_(std::move(receive_queue)),
      requester_(is_connected() ? send_queue_.capacity() : 1) {
  if (is_raw() && !options_.scaling) frames_ = std::make_unique<mover::FrameBatch>();
  if (options_.send_cq != nullptr) ++options_.send_cq->users;
  if (options_.receive_cq != nullptr) ++options_.receive_cq->users;
  if (options_.shared_receive != nullptr) ++options_.shared_receive->users;
  record_->type.store(raw(options.type), std::memory_order_relaxed);
  // One that scales is made of queues with states of their own, and receives from the start.
  set_state(options_.scaling ? QpState::rts : QpState::reset);
  note_wire_use();
  record_->qpn.store(number.value(), std::memory_order_release);
  target_.qpn.store(may_be_direct() ? number.value() : 0, std::memory_order_release);
}

QueuePair::~QueuePair() {
  close_target();
  if (uses_wire_) adapter_.progress().add_wire_users(-1);
  record_->qpn.store(0, std::memory_order_release);
  if (options_.send_cq != nullptr) --options_.send_cq->users;
  if (options_.receive_cq != nullptr) --options_.receive_cq->users;
  if (options_.shared_receive != nullptr) --options_.shared_receive->users;
}

bool serves(QpType type, Operation operation) {
  const transport::OperationInfo& info = transport::info(operation);
  if (!info.known) return false;
  switch (type) {
    case QpType::rc:
    case QpType::xrc_send:
      return true;
    case QpType::uc:
      return info.is_local || transport::is_write(operation) ||
             (transport::is_send(operation) && !info.invalidate);
    case QpType::ud:
      return transport::is_send(operation) && !info.invalidate;
    case QpType::raw_packet:
      return operation == Operation::send;
    case QpType::xrc_receive:
      return false;
  }
  return false;
}

VERBATIM_HOT int QueuePair::check_post(const SendWork& work) const {
  const QpState now = state();
  if (now == QpState::reset || now == QpState::init || now == QpState::rtr) return EINVAL;
  const Operation operation = work.request.operation;
  const bool is_served =
      raw(operation) < transport::kOperations && (served_ >> raw(operation) & 1) != 0;
  if (!is_served) return EINVAL;
  const transport::OperationInfo& info = transport::info(operation);
  const bool is_eight_bytes =
      transport::is_atomic(operation) || operation == Operation::atomic_write;
  if (is_eight_bytes && work.request.length != 8) return EINVAL;
  if (work.inlined) {
    if (info.data == transport::DataFlow::in) return EINVAL;
    const bool fits = work.request.length <= options_.capacity.inline_bytes ||
                      operation == Operation::atomic_write;
    if (!fits) return EINVAL;
  } else if (work.segments.size() > send_queue_.segments_max()) {
    return EINVAL;
  }
  if (work.request.length > Limits::message_bytes) return EINVAL;
  if (is_datagram() && work.destination == nullptr) return EINVAL;
  if (work.fill_checksums && !is_raw()) return EINVAL;
  // IBA 11.2.5.2: with none outstanding allowed, READs and atomics are no operations of this queue
  // pair.
  return info.awaits_response && attributes_.max_rd_atomic == 0 ? EINVAL : 0;
}

int QueuePair::Posting::post(const SendWork& work) {
  if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  if (queue_pair_.send_queue_.room() == 0) return ENOMEM;
  queue_pair_.take_post(work);
  return 0;
}

int QueuePair::Posting::post(std::span<const SendWork> works) {
  for (const SendWork& work : works) {
    if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  }
  if (works.size() > queue_pair_.send_queue_.room()) return ENOMEM;
  for (const SendWork& work : works) queue_pair_.take_post(work);
  return 0;
}

QueuePair::Posting::~Posting() {
  if (queue_pair_.has_nothing_to_send()) return;
  const TimeNs now = monotonic_now();
  const auto use = queue_pair_.adapter_.progress().note_post(now);
  if (queue_pair_.may_gather()) {
    queue_pair_.adapter_.progress().note_output(queue_pair_);
    return;
  }
  queue_pair_.transmit_locked(now);
  guard_.unlock();
  queue_pair_.give_way();
}

void QueuePair::take_post(const SendWork& work) {
  if (execute_at_once(work)) return;
  push_send(work);
  if (state() == QpState::err || state() == QpState::sqe) flush_posted();
}

void QueuePair::push_send(const SendWork& work) {
  const auto slot = send_queue_.posted();
  send_queue_.push({.wr_id = work.wr_id,
                    .request = work.request,
                    .segment_count = static_cast<std::uint32_t>(work.segments.size()),
                    .signaled = work.signaled || options_.signal_all,
                    .inlined = work.inlined,
                    .fill_checksums = work.fill_checksums},
                   work.segments);
  if (work.binding) send_queue_.set_binding(*work.binding);
  if (is_datagram()) {
    send_queue_.target(slot) = {.address = work.destination->address,
                                .source_gid_index = work.destination->vector.source_gid_index,
                                .qpn = work.remote_qpn,
                                .qkey = work.remote_qkey};
  }
}

/// What was posted and never reached an engine completes as flushed (IBA 10.3.1.5, 10.3.1.7).
void QueuePair::flush_posted() {
  while (!send_queue_.empty()) complete_send(send_queue_.completed(), Status::flushed);
  handed_ = send_queue_.posted();
}

int QueuePair::post_receive(std::uint64_t wr_id, std::span<const Segment> segments) {
  if (state() == QpState::reset || receive_queue_ == nullptr || options_.scaling) return EINVAL;
  if (const int refused = receive_queue_->post(wr_id, segments); refused != 0) return refused;
  if (state() == QpState::err) {
    const std::lock_guard guard(lock_);
    if (state() == QpState::err) flush_receives();
  }
  return 0;
}

void QueuePair::push(CompletionQueue& queue, const Completion& completion, bool solicited) {
  if (!queue.push(completion, solicited)) fatal_ = true;
}

void QueuePair::raise(AsyncEventType type) {
  for (const Listener& listener : listeners_) listener.events->push({type, listener.owner});
}

void QueuePair::add_listener(AsyncEvents& events, void* owner) {
  const std::lock_guard guard(lock_);
  listeners_.push_back({&events, owner});
}

bool QueuePair::remove_listener(const void* owner) {
  const std::lock_guard guard(lock_);
  std::erase_if(listeners_, [owner](const Listener& one) { return one.owner == owner; });
  return listeners_.empty();
}

namespace {

CompletionOpcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::send:
    case Operation::send_with_immediate:
    case Operation::send_with_invalidate:
      return CompletionOpcode::send;
    case Operation::write:
    case Operation::write_with_immediate:
      return CompletionOpcode::write;
    case Operation::read:
      return CompletionOpcode::read;
    case Operation::compare_and_swap:
      return CompletionOpcode::compare_and_swap;
    case Operation::fetch_and_add:
      return CompletionOpcode::fetch_and_add;
    case Operation::bind_window:
      return CompletionOpcode::bind_window;
    case Operation::local_invalidate:
      return CompletionOpcode::local_invalidate;
    case Operation::flush:
      return CompletionOpcode::flush;
    case Operation::atomic_write:
      return CompletionOpcode::atomic_write;
  }
  return CompletionOpcode::send;
}

}  // namespace

void QueuePair::complete_send(transport::Slot slot, Status status) {
  VERBATIM_ASSERT(slot == send_queue_.completed());
  if (options_.finishes_rendezvous()) return complete_rendezvous(slot, status);
  const SendPlace& place = send_queue_.place(slot);
  if (place.signaled || status != Status::success) {
    push_send_completion(place.wr_id, place.request, status);
  }
  send_queue_.pop();
}

void QueuePair::push_send_completion(std::uint64_t wr_id, const transport::SendRequest& request,
                                     Status status) {
  const bool fits =
      options_.send_cq->push({.wr_id = wr_id,
                              .status = status,
                              .opcode = opcode_of(request.operation),
                              .byte_count = static_cast<std::uint32_t>(request.length),
                              .qpn = number_.value()},
                             false);
  if (!fits) fatal_ = true;
}

Completion QueuePair::completion_of(const transport::CompleteReceive& receive,
                                    std::uint64_t wr_id) const {
  return {
      .wr_id = wr_id,
      .status = receive.status,
      .opcode = receive.is_write ? CompletionOpcode::receive_write_with_immediate
                                 : CompletionOpcode::receive,
      .byte_count = static_cast<std::uint32_t>(receive.byte_count),
      .immediate = receive.has_invalidated_key ? raw(receive.invalidated_key) : receive.immediate,
      .qpn = number_.value(),
      .source_qpn = attributes_.dest_qpn.value(),
      .flags = (receive.has_immediate ? kCompletionWithImmediate : 0) |
               (receive.has_invalidated_key ? kCompletionWithInvalidate : 0)};
}

void QueuePair::complete_receive(const transport::CompleteReceive& receive) {
  Completion completion = completion_of(receive, current_receive_.wr_id);
  tagged_.describe(completion);
  push(receive_cq(), completion, receive.solicited);
  holds_receive_ = false;
  if (tagged_.is_rendezvous() && receive.status == Status::success) start_rendezvous();
}

void QueuePair::flush_receives() {
  const auto flush_one = [this](std::uint64_t wr_id) {
    Completion completion{.wr_id = wr_id,
                          .status = Status::flushed,
                          .opcode = CompletionOpcode::receive,
                          .qpn = number_.value()};
    tagged_.describe(completion);
    push(receive_cq(), completion, false);
  };
  if (holds_receive_) flush_one(current_receive_.wr_id);
  holds_receive_ = false;
  if (receive_queue_ != nullptr) {
    while (receive_queue_->take(current_receive_)) flush_one(current_receive_.wr_id);
  }
}

void QueuePair::enter_error() {
  fatal_ = false;
  if (state() == QpState::err) return;
  close_target();
  set_state(QpState::err);
  if (is_connected()) {
    do {
      requester_effects_.list.clear();
      requester_effects_.more = false;
      requester_.flush(requester_effects_);
      for (const auto& effect : requester_effects_.list) apply(effect);
    } while (requester_effects_.more);
    requester_effects_.list.clear();
    responder_.take_current_receive();
  }
  flush_posted();
  flush_receives();
  // IBA 11.6.3.1: from here on the queue pair takes nothing from the shared queue.
  if (options_.shared_receive != nullptr) raise(AsyncEventType::qp_last_request_reached);
  fatal_ = false;  // Nothing is left to stop.
}

void QueuePair::enter_send_queue_error() {
  set_state(QpState::sqe);
  flush_posted();
}

/// SQD: when what was sent before has completed, the send queue is drained (IBA 10.3.1.6).
void QueuePair::check_drained() {
  if (state() != QpState::sqd || drain_reported_ || send_queue_.completed() != handed_) return;
  drain_reported_ = true;
  if (attributes_.sqd_notify) raise(AsyncEventType::sq_drained);
}

PdNumber QueuePair::receive_pd() const {
  return receive_source_ != nullptr ? receive_source_->options().pd : options_.pd;
}

CompletionQueue& QueuePair::receive_cq() const {
  const bool shared = receive_source_ != nullptr && receive_source_->options().cq != nullptr;
  return shared ? *receive_source_->options().cq : *options_.receive_cq;
}

bool QueuePair::take_receive(SrqNumber named) {
  VERBATIM_ASSERT(!holds_receive_);
  if (receive_queue_ != nullptr) return receive_queue_->take(current_receive_);
  SharedReceiveQueue* const shared = type() == QpType::xrc_receive
                                         ? adapter_.find_shared_receive(named, options_.xrc_domain)
                                         : options_.shared_receive;
  receive_source_ = shared;
  return shared != nullptr && shared->take(current_receive_);
}

bool QueuePair::Receives::take(const wire::Packet& packet, transport::Receive& out) {
  QueuePair& owner = queue_pair_;
  const SharedReceiveQueue* const shared = owner.options_.shared_receive;
  const bool tags = shared != nullptr && shared->matches_tags();
  const bool taken =
      tags ? owner.take_tagged(packet) : owner.take_receive(packet.headers.xrc_eth.srq);
  if (!taken) return false;
  owner.holds_receive_ = true;
  out = {.ticket = 0, .capacity_bytes = owner.tagged_.room(owner.current_receive_.capacity_bytes)};
  return true;
}

std::optional<PdNumber> QueuePair::Receives::domain_of(SrqNumber number) {
  const SharedReceiveQueue* const shared =
      queue_pair_.adapter_.find_shared_receive(number, queue_pair_.options_.xrc_domain);
  if (shared == nullptr) return std::nullopt;
  return shared->options().pd;
}

void QueuePair::forget(const SharedReceiveQueue& queue) {
  const std::lock_guard guard(lock_);
  bool held = forget_held(queue.number());
  if (receive_source_ == &queue) {
    receive_source_ = nullptr;
    held |= std::exchange(holds_receive_, false);
  }
  if (!held) return;
  raise(AsyncEventType::qp_fatal);
  fail();
}

}  // namespace verbatim::adapter

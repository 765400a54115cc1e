#include "adapter/queue_pair/queue_pair.h"

#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/carried.h"
#include "adapter/services/stream.h"

namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

namespace {

/// What the program may post, one bit for each operation.
std::uint32_t operations_of(const QueuePairOptions& options, bool is_iwarp) {
  static_assert(transport::kOperations <= 32);
  if (options.scaling || options.finishes_rendezvous()) return 0;
  std::uint32_t served = 0;
  for (std::uint32_t i = 0; i < transport::kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (is_carried(operation, is_iwarp) && serves(options.type, operation)) served |= 1u << i;
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
      served_(operations_of(options, adapter.node().is_iwarp())),
      number_(number),
      record_(&record),
      target_(target),
      listeners_{{options.events, options.owner}},
      send_queue_(std::move(send_queue)),
      receive_queue_(std::move(receive_queue)),
      requester_(is_connected() ? send_queue_.capacity() : 1) {
  if (is_raw() && !options_.scaling) frames_ = std::make_unique<link::FrameBatch>();
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
  forget_stream();
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
  const auto flush = [this](auto& requester) {
    do {
      requester_effects_.list.clear();
      requester_effects_.more = false;
      requester.flush(requester_effects_);
      for (const auto& effect : requester_effects_.list) apply(effect);
    } while (requester_effects_.more);
    requester_effects_.list.clear();
  };
  if (stream_ != nullptr) {
    stream_->negotiates_path = false;
    flush(stream_->endpoint.requester());
  } else if (is_connected()) {
    flush(requester_);
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
  SharedReceiveQueue* const shared =
      type() == QpType::xrc_receive ? adapter_.shared_receives().find(named, options_.xrc_domain)
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
      queue_pair_.adapter_.shared_receives().find(number, queue_pair_.options_.xrc_domain);
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

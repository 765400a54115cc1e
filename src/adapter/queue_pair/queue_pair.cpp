#include "adapter/queue_pair/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "adapter/limits.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/core/carried.h"
#include "port/port.h"

namespace verbatim::adapter {

using transport::Operation;

static_assert(services::Service<services::Connected> && services::Service<services::Datagram> &&
              services::Service<services::Stream> && services::Service<services::Raw>);

namespace {

/// A request that waits for its peer is tried again after this time if the program does not poll.
constexpr TimeNs kLookAgain = kMillisecond / 10;

/// Returns the operations that the program may post, one bit each.
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

AnyService make_service(QueuePairCore& core, DirectEnd& direct) {
  if (core.around.is_iwarp) return AnyService(std::in_place_type<services::Stream>, core, direct);
  switch (core.type()) {
    case QpType::ud:
      return AnyService(std::in_place_type<services::Datagram>, core, direct);
    case QpType::raw_packet:
      return AnyService(std::in_place_type<services::Raw>, core);
    default:
      return AnyService(std::in_place_type<services::Connected>, core, direct);
  }
}

}  // namespace

QueuePair::QueuePair(const Surroundings& around, const QueuePairOptions& options, Qpn number,
                     QueuePairRecord& record, DirectTarget& target, SendQueue send_queue,
                     std::unique_ptr<ReceiveQueue> receive_queue)
    : served_(operations_of(options, around.is_iwarp)),
      core_(*this, around, options, number, record, std::move(send_queue),
            std::move(receive_queue)),
      direct_(core_, target),
      service_(make_service(core_, direct_)) {}

QueuePair::~QueuePair() { direct_.close_target(); }

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

int QueuePair::post_receive(std::uint64_t wr_id, std::span<const Segment> segments) {
  ReceiveQueue* const queue = core_.receives.own.get();
  if (state() == QpState::reset || queue == nullptr || core_.options.scaling) return EINVAL;
  if (const int refused = queue->post(wr_id, segments); refused != 0) return refused;
  if (state() == QpState::err) {
    const std::lock_guard guard(lock_);
    if (state() == QpState::err) core_.flush_receives();
  }
  return 0;
}

void QueuePair::enter_error() {
  core_.fatal = false;
  if (state() == QpState::err) return;
  direct_.close_target();
  core_.set_state(QpState::err);
  std::visit([](auto& service) { service.flush(); }, service_);
  core_.flush_posted();
  core_.flush_receives();
  // IBA 11.6.3.1: from here on the queue pair takes nothing from the shared queue.
  if (core_.options.shared_receive != nullptr) {
    core_.raise(AsyncEventType::qp_last_request_reached);
  }
  core_.fatal = false;  // Nothing is left to stop.
}

void QueuePair::fail() {
  std::visit([](auto& service) { service.send_last(false); }, service_);
  enter_error();
}

// Sending.

void QueuePair::transmit() {
  const TimeNs now = monotonic_now();
  const auto use = core_.around.progress.note_post(now);
  transmit_output(now);
}

void QueuePair::transmit_output(TimeNs now) {
  {
    const std::lock_guard guard(lock_);
    transmit_locked(now);
  }
  yield_if_unreliable();
}

/// Nobody acknowledges what an unreliable queue pair sends, so nothing holds it back: where the
/// receiver shares this processor, it gets its turn before its socket overflows. A fabric's credits
/// do hold it back.
void QueuePair::yield_if_unreliable() const {
  if (!core_.is_reliable() && !direct_.is_open() && !core_.port().is_infiniband()) sched_yield();
}

void QueuePair::transmit_locked(TimeNs now) {
  core_.held_back = false;  // Unless the pacer is asked again.
  std::visit([now](auto& service) { service.transmit(now); }, service_);
  settle();
}

void QueuePair::settle() {
  if (core_.fatal) fail();
  core_.check_drained();
  rearm_timer();
}

TimeNs QueuePair::next_deadline() const {
  if (state() == QpState::err) return kNever;  // Nothing that its link waited for is due any more.
  // The direct path: a peer that is not ready may soon be.
  const bool awaits_peer = direct_.deadline() != kNever && core_.handed < core_.sends.posted() &&
                           !core_.around.progress.is_polled();
  return std::min({awaits_peer ? monotonic_now() + kLookAgain : kNever,
                   std::visit([](const auto& service) { return service.deadline(); }, service_),
                   direct_.deadline(), core_.held_back ? core_.pacer.free_at() : kNever});
}

/// Lazily: only a deadline earlier than the one that stands in the queue enters it.
void QueuePair::rearm_timer() {
  const TimeNs deadline = next_deadline();
  if (deadline >= armed_deadline_) return;
  armed_deadline_ = deadline;
  core_.around.progress.arm_timer(deadline, number());
}

Result<void> QueuePair::limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
  if (rate_kbps > Limits::rate_kbps) {
    return refuse(EINVAL, fmt::format("{} kbps are above {}", rate_kbps, Limits::rate_kbps));
  }
  const std::lock_guard guard(lock_);
  core_.limit_rate(rate_kbps, burst_bytes);
  transmit_locked(monotonic_now());
  return {};
}

// Receiving, time-outs.

void QueuePair::on_packet(const wire::Packet& packet, const Path& from, const Path& to,
                          TimeNs now) {
  const QpState current = state();
  const auto& info = wire::info(packet.headers.bth.opcode);
  auto* const connected = std::get_if<services::Connected>(&service_);
  auto* const datagram = std::get_if<services::Datagram>(&service_);
  if (current == QpState::reset || current == QpState::init || current == QpState::err ||
      (connected == nullptr && datagram == nullptr) || info.service != service_of(type())) {
    core_.around.arena.header().port_counters.dropped_no_qp.add();  // IBA C9-30, C9-31.
    return;
  }
  if (!wire::pkeys_match(packet.headers.bth.pkey, core_.pkey)) {  // IBA 10.9.3.
    return core_.on_bad_key(wire::TrapNumber::bad_p_key, raw(packet.headers.bth.pkey),
                            packet.headers, from);
  }
  core_.count_received(packet.headers, packet.payload.size());
  if (datagram != nullptr) {
    datagram->on_packet(packet, from, to);
  } else {
    connected->on_packet(packet, from, now);
  }
  if (core_.fatal) fail();
}

bool QueuePair::end_reception() {
  core_.placing.release();
  core_.check_drained();
  const auto* const connected = std::get_if<services::Connected>(&service_);
  if (connected == nullptr) return false;
  rearm_timer();
  return connected->has_output();
}

void QueuePair::on_frame(const SteeredFrame& frame) {
  auto* const raw = std::get_if<services::Raw>(&service_);
  if (raw == nullptr) return;
  if (raw->scales()) return raw->spread(frame);
  const std::lock_guard guard(lock_);
  raw->on_frame(frame);
  if (core_.fatal) fail();
}

void QueuePair::on_timer(TimeNs now) {
  std::unique_lock guard(lock_);
  armed_deadline_ = kNever;
  const auto* const stream = std::get_if<services::Stream>(&service_);
  if (stream != nullptr && stream->is_due(now)) {
    guard.unlock();
    return on_stream(now);
  }
  if (state() != QpState::rts && state() != QpState::sqd) return;
  if (!direct_.is_open()) {
    const bool was_due =
        std::visit([now](auto& service) { return service.on_timer(now); }, service_);
    if (!was_due && !core_.held_back) return rearm_timer();  // The deadline has moved.
    if (core_.fatal) fail();
  }
  transmit_locked(now);
}

// iWARP.

Result<void> QueuePair::start_stream(StreamStart start) {
  const std::lock_guard guard(lock_);
  auto* const stream = std::get_if<services::Stream>(&service_);
  if (stream == nullptr || state() != QpState::init) {
    return refuse(EINVAL, fmt::format("QP {:#x} is in {}, not in INIT, and cannot be connected",
                                      number().value(), name_of(state())));
  }
  if (auto started = stream->start(std::move(start)); !started) return started;
  transmit_locked(monotonic_now());
  return {};
}

void QueuePair::on_stream(TimeNs now, bool to_the_end) {
  const std::lock_guard guard(lock_);
  auto* const stream = std::get_if<services::Stream>(&service_);
  if (stream == nullptr || !stream->receive(now, to_the_end)) return;
  if (core_.fatal) fail();
  transmit_locked(now);
  stream->transmit_after_receive();
  if (core_.fatal) fail();
}

void QueuePair::follow_port() {
  const std::lock_guard guard(lock_);
  use_pkey();
  if (auto* const datagram = std::get_if<services::Datagram>(&service_)) datagram->reset();
}

void QueuePair::use_pkey() {
  core_.pkey = core_.port().pkeys().at(core_.attributes.pkey_index);
  if (auto* const connected = std::get_if<services::Connected>(&service_)) {
    connected->set_pkey(core_.pkey);
  }
  direct_.follow_port();
}

// What peers do.

void QueuePair::on_notifications() {
  const std::lock_guard guard(lock_);
  if (direct_.take_notifications()) fail();
}

void QueuePair::on_peer_gone(const DirectPeer& peer) {
  const std::lock_guard guard(lock_);
  if (auto* const datagram = std::get_if<services::Datagram>(&service_))
    datagram->on_peer_gone(peer);
  if (direct_.on_peer_gone(peer)) transmit_locked(monotonic_now());
}

void QueuePair::on_attached_peer_gone() {
  const std::lock_guard guard(lock_);
  if (direct_.on_attached_peer_gone()) fail();
}

// Other users.

void QueuePair::add_listener(AsyncEvents& events, void* owner) {
  const std::lock_guard guard(lock_);
  core_.add_listener(events, owner);
}

bool QueuePair::remove_listener(const void* owner) {
  const std::lock_guard guard(lock_);
  return core_.remove_listener(owner);
}

void QueuePair::forget(const SharedReceiveQueue& queue) {
  const std::lock_guard guard(lock_);
  bool held = direct_.forget_queue(queue.number());
  if (core_.receives.source == &queue) {
    core_.receives.source = nullptr;
    held |= std::exchange(core_.receives.holds, false);
  }
  if (!held) return;
  core_.raise(AsyncEventType::qp_fatal);
  fail();
}

}  // namespace verbatim::adapter

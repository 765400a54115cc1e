#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <sched.h>

#include "adapter/adapter.h"
#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/log.h"
#include "port/burst.h"
#include "transport/ib/datagram.h"

/// Sending: requests, responses and datagrams, from the engines into bursts.
namespace verbatim::adapter {

using transport::OutgoingPacket;
using transport::PayloadSource;
using transport::Status;

namespace {

/// Responses per pass: a peer that reads a gigabyte must not keep this queue pair's lock all the
/// time.
constexpr int kResponsesPerPass = 256;

/// Appends bytes [offset, offset + length) of a send request; returns false if its memory is
/// refused.
bool append_request_bytes(Burst& burst, const SendQueue& queue, const region::RegionTable& regions,
                          PdNumber pd, transport::Slot slot, std::uint64_t offset,
                          std::uint32_t length) {
  if (queue.wqe(slot).inlined) {
    burst.append_bytes(queue.inline_bytes(slot).data() + offset, length);
    return true;
  }
  const auto append = [&](MemoryKey key, std::uint64_t address, std::uint32_t bytes) {
    return burst.append(regions, key, address, bytes, region::kLocalRead, pd);
  };
  return for_each_piece(queue.segments(slot), offset, length, append).has_value();
}

}  // namespace

void QueuePair::transmit() {
  const TimeNs now = monotonic_now();
  const auto use = adapter_.progress().note_post(now);
  transmit_output(now);
}

void QueuePair::transmit_output(TimeNs now) {
  {
    const std::lock_guard guard(lock_);
    transmit_locked(now);
  }
  yield_if_unreliable();
}

/// UC and UD on the wire: yields the CPU after each post. Nothing paces these services, and a
/// receiver on the same CPU must empty its socket before it overflows.
void QueuePair::yield_if_unreliable() const {
  if (!is_reliable() && link_ == nullptr) sched_yield();
}

/// Returns true if a post should wait for more. Only for reliable queue pairs on the wire, while
/// the program polls, an earlier request is in flight (iWARP: one was sent since the last poll),
/// and fewer than 16 requests and 32 KiB (iWARP: 60,000 bytes) wait. They are sent at the latest by
/// the next poll or, within a millisecond, by the background thread.
bool QueuePair::may_gather() const {
  constexpr std::uint64_t kTogether = 16;
  constexpr std::uint64_t kBytesTogether = link::kSendBytesMax / 2;
  constexpr std::uint64_t kBytesOfStreamTogether = 60'000;  // What TCP takes in one piece.
  const std::uint64_t waiting = send_queue_.posted() - handed_;
  if (waiting == 0 || waiting >= kTogether || !is_reliable() || link_ != nullptr) return false;
  const Progress& progress = adapter_.progress();
  const bool has_company =
      stream_ != nullptr ? stream_->posted_at > progress.last_poll() : requester_.in_flight();
  if (!has_company || !progress.is_polled()) return false;
  std::uint64_t bytes = 0;
  for (auto slot = handed_; slot < send_queue_.posted(); ++slot) {
    bytes += send_queue_.wqe(slot).request.length;
  }
  return bytes < (stream_ != nullptr ? kBytesOfStreamTogether : kBytesTogether);
}

void QueuePair::transmit_locked(TimeNs now) {
  const QpState current = state();
  if (is_datagram()) return current == QpState::rts ? transmit_datagrams(now) : void();
  if (is_raw()) return transmit_frames(now);
  if (stream_ != nullptr && stream_->is_polled) transmit_stream();
  if (stream_ != nullptr && link_ == nullptr) return;
  if ((!route_ && link_ == nullptr) || current == QpState::reset || current == QpState::init ||
      current == QpState::err) {
    return;
  }
  if (link_ != nullptr) transmit_direct(now);
  if (link_ == nullptr || responder_.has_output()) {
    Burst burst(adapter_.arena().header());
    burst.use(*route_);
    // In a program that polls, the program's own answer is sent first, and the acknowledgement
    // follows in the same datagram; the receiver processes acknowledgements first. A program that
    // waits for events may rely on their order: as with a card, its request must complete before
    // the peer's answer comes.
    const bool answer_first = link_ == nullptr && adapter_.progress().is_polled();
    if (answer_first) transmit_requests(burst, now);
    if (state() != QpState::err && !transmit_responses(burst)) {
      adapter_.progress().note_output(*this);
    }
    if (link_ == nullptr && !answer_first) transmit_requests(burst, now);
    burst.flush();
    record_->counters.packets_sent.add_exclusive(burst.packets());
    record_->counters.bytes_sent.add_exclusive(burst.bytes());
  }
  publish_counters();
  if (fatal_) fail();
  check_drained();
  rearm_timer();
}

/// Sends the responder's pending NAK or acknowledgement before the queue pair stops.
void QueuePair::send_pending_responses() {
  if (stream_ != nullptr) return end_stream();
  if (!is_connected() || !route_ || !responder_.has_output()) return;
  Burst burst(adapter_.arena().header());
  burst.use(*route_);
  transmit_responses(burst);
}

void QueuePair::fail() {
  send_pending_responses();
  enter_error();
}

bool QueuePair::may_send(TimeNs now) {
  held_back_ = !pacer_.admits(now);
  return !held_back_;
}

Result<void> QueuePair::limit_rate(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
  if (rate_kbps > Limits::rate_kbps) {
    return refuse(EINVAL, fmt::format("{} kbps are above {}", rate_kbps, Limits::rate_kbps));
  }
  const std::lock_guard guard(lock_);
  pace(rate_kbps, burst_bytes);
  return {};
}

void QueuePair::pace(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
  /// More than is sent in the time by which a sleeping thread oversleeps.
  constexpr std::uint32_t kBurstBytes = 64 << 10;
  attributes_.rate_limit_kbps = rate_kbps;
  pacer_.limit(rate_kbps, burst_bytes != 0 ? burst_bytes : kBurstBytes);
  transmit_locked(monotonic_now());
}

void QueuePair::transmit_requests(Burst& burst, TimeNs now) {
  if (state() != QpState::rts && state() != QpState::sqd) return;
  // SQD sends no new request, but finishes those that it has begun.
  while (state() == QpState::rts && handed_ < send_queue_.posted()) {
    requester_.post(send_queue_.wqe(handed_++).request);
  }
  const auto stopped = [this] { return state() != QpState::rts && state() != QpState::sqd; };
  OutgoingPacket packet;
  for (;;) {
    if (may_send(now) && requester_.poll_transmit(now, packet)) {
      pacer_.count(now, packet.payload.length + kWireOverheadBytes);
      // Waiting for the rate must not look like a loss, so everything sent is acknowledged first.
      if (!pacer_.admits(now) && type() != QpType::uc) packet.headers.bth.ack_request = true;
      if (add_request_packet(burst, packet)) continue;
      requester_.on_local_error(packet.payload.slot, Status::local_protection_error,
                                requester_effects_);
      drain(requester_effects_);
    } else if (const auto slot = requester_.poll_local()) {
      burst.flush();  // The operation may wait for regions that it holds.
      if (const Status status = carry_out(*slot); status != Status::success) {
        requester_.on_local_error(*slot, status, requester_effects_);
        drain(requester_effects_);
      }
    } else {
      break;
    }
    if (stopped()) return;
  }
  // UC completes a request after its last packet is sent, so it must have been sent.
  if (options_.type == QpType::uc) burst.flush();
  requester_.after_transmit(requester_effects_);
  drain(requester_effects_);
}

/// Executes a local operation in order. A failure becomes the completion's status; the text goes to
/// the log.
Status QueuePair::carry_out(transport::Slot slot) {
  const transport::SendRequest& request = send_queue_.wqe(slot).request;
  std::string refusal;
  if (request.operation == transport::Operation::bind_window) {
    const auto bound = regions_.bind(send_queue_.binding(slot), accessor());
    if (!bound) refusal = bound.error().text;
  } else if (const auto ended = regions_.invalidate(request.remote_key, accessor()); !ended) {
    refusal = region::describe(ended.error());
  }
  if (refusal.empty()) return Status::success;
  log(LogLevel::warn, "QP {:#x}: {} of key {:#010x}: {}", number_.value(),
      request.operation == transport::Operation::bind_window ? "bind" : "local invalidate",
      raw(request.remote_key), refusal);
  return Status::memory_window_bind_error;
}

bool QueuePair::add_request_packet(Burst& burst, const OutgoingPacket& packet) {
  const PayloadSource& payload = packet.payload;
  burst.begin(packet.headers, payload.length);
  if (payload.length > 0 && !append_request_bytes(burst, send_queue_, regions_, options_.pd,
                                                  payload.slot, payload.offset, payload.length)) {
    burst.abandon();
    return false;
  }
  burst.end();
  return true;
}

namespace {

/// Returns the counter that an acknowledgement belongs to.
observe::Counter& acknowledgement_counter(const wire::Aeth& aeth, observe::Counter& acks,
                                          observe::Counter& naks, observe::Counter& rnr_naks) {
  return aeth.syndrome.is_ack() ? acks : aeth.syndrome.is_nak() ? naks : rnr_naks;
}

}  // namespace

void QueuePair::count_sent(const wire::Headers& headers) {
  if (!wire::info(headers.bth.opcode).has(wire::kAeth)) return;
  auto& counters = record_->counters;
  acknowledgement_counter(headers.aeth, counters.acks_sent, counters.naks_sent,
                          counters.rnr_naks_sent)
      .add_exclusive();
}

void QueuePair::count_received(const wire::Headers& headers) {
  auto& counters = record_->counters;
  counters.packets_received.add_exclusive();
  if (!wire::info(headers.bth.opcode).has(wire::kAeth)) return;
  acknowledgement_counter(headers.aeth, counters.acks_received, counters.naks_received,
                          counters.rnr_naks_received)
      .add_exclusive();
}

/// Copies the counters that the engines have.
void QueuePair::publish_counters() {
  auto& counters = record_->counters;
  counters.retransmissions.set(requester_.retransmissions());
  counters.duplicates.set(responder_.counters().duplicates);
  counters.out_of_sequence.set(responder_.counters().out_of_sequence);
}

/// Returns false if more is left for the next pass.
bool QueuePair::transmit_responses(Burst& burst) {
  OutgoingPacket packet;
  for (int sent = 0; responder_.poll_transmit(packet); ++sent) {
    if (!add_response_packet(burst, packet)) {
      transport::ResponderEffects effects;
      responder_.on_read_error(effects);
      drain(effects);
    }
    if (sent == kResponsesPerPass) return !responder_.has_output();
  }
  return true;
}

bool QueuePair::add_response_packet(Burst& burst, const OutgoingPacket& packet) {
  const PayloadSource& payload = packet.payload;
  burst.begin(packet.headers, payload.length);
  const bool is_imported = raw(payload.srq) != 0 && !adapter_.shared_receives().has(payload.srq);
  const auto append = [&] {
    if (is_imported) return append_from_queue_owner(burst, payload);
    return burst
        .append(regions_, payload.key, payload.address, payload.length, region::kRemoteRead,
                {payload.pd, number_})
        .has_value();
  };
  if (payload.length > 0 && !append()) {
    burst.abandon();
    return false;
  }
  burst.end();
  count_sent(packet.headers);
  return true;
}

/// Lazy: only a deadline earlier than that in the queue is added.
void QueuePair::rearm_timer() {
  const TimeNs deadline =
      std::min({requester_.deadline(), link_ != nullptr ? link_->deadline() : kNever,
                held_back_ ? pacer_.free_at() : kNever});
  if (deadline >= armed_deadline_) return;
  armed_deadline_ = deadline;
  adapter_.progress().arm_timer(deadline, number_);
}

}  // namespace verbatim::adapter

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "transport/ib/requester/requester.h"
#include "wire/ib/opcode.h"

namespace verbatim::transport {

using wire::Verb;

void Requester::on_packet(const wire::Packet& packet, TimeNs now, RequesterEffects& out) {
  const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
  if (failed_ || info.service != config_.service || info.is_request) return;
  if (!wire::is_reliable(config_.service)) return;
  // IBA 9.7.5: ignore a response to a packet that is already acknowledged, or that was never sent
  // (a "ghost").
  const std::int32_t ahead = distance(psn_of(acknowledged_), packet.headers.bth.psn);
  if (ahead < 0) return;
  const Sequence sequence = acknowledged_ + static_cast<std::uint32_t>(ahead);
  if (sequence >= sent_end_) return;

  if (info.verb == Verb::acknowledge) {
    on_acknowledge(packet.headers.aeth.syndrome, sequence, now);
    return emit(out, tail_slot_);
  }
  on_response(packet, sequence, now, out);
}

void Requester::on_acknowledge(wire::Syndrome syndrome, Sequence sequence, TimeNs now) {
  switch (syndrome.kind()) {
    case wire::Syndrome::Kind::ack:
      if (!acknowledge_before(sequence + 1, now)) on_missing_response(now);
      return;
    case wire::Syndrome::Kind::rnr_nak:
      acknowledge_before(sequence, now);
      return on_rnr_nak(syndrome.rnr_timer_ns(), sequence, now);
    case wire::Syndrome::Kind::nak:
      return on_nak(syndrome.nak_code(), sequence, now);
  }
}

void Requester::on_nak(wire::NakCode code, Sequence sequence, TimeNs now) {
  // A NAK acknowledges the packets before it (IBA 9.7.5). If the response of an earlier READ is
  // missing, that READ must be repeated first.
  if (!acknowledge_before(sequence, now)) return on_missing_response(now);
  switch (code) {
    case wire::NakCode::psn_sequence_error:
      // If nothing is in flight behind the gap, the gap was filled meanwhile, or this NAK is a
      // duplicate.
      if (in_flight()) on_loss(now);
      return;
    case wire::NakCode::invalid_request:
    case wire::NakCode::invalid_rd_request:
      return fail(Status::remote_invalid_request);
    case wire::NakCode::remote_access_error:
      return fail(Status::remote_access_error);
    case wire::NakCode::remote_operational_error:
      return fail(Status::remote_operation_error);
  }
}

/// A READ or atomic response acknowledges everything before it (IBA 9.7.5). It must be the awaited
/// one.
void Requester::on_response(const wire::Packet& packet, Sequence sequence, TimeNs now,
                            RequesterEffects& out) {
  if (!acknowledge_before(sequence, now)) {
    on_missing_response(now);
    return emit(out, tail_slot_);
  }
  if (breaks_rules(packet, sequence)) {
    fail(Status::bad_response);
    return emit(out, tail_slot_);
  }
  place(packet, out);
  const Slot placed = ack_slot_;
  const std::uint64_t position = acknowledged_position_;
  const PostedRequest& request = requests_[placed];
  ++acknowledged_;
  acknowledged_position_ = position_of(request, acknowledged_);
  if (acknowledged_ == request.end_sequence()) ++ack_slot_;
  skip_local();
  reads_.answered(acknowledged_);
  window_.on_acknowledged(acknowledged_position_ - position);
  note_progress(now);
  // `resume` completes the request that the payload belongs to.
  emit(out, placed);
}

/// IBA 9.9.2: the response must have the kind, the position and the length of the request.
bool Requester::breaks_rules(const wire::Packet& packet, Sequence sequence) const {
  const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
  const PostedRequest& request = requests_[ack_slot_];
  if (info.has(wire::kAeth) && !packet.headers.aeth.syndrome.is_ack()) return true;
  if (info.verb == Verb::atomic_acknowledge) return !request.is_atomic();
  if (!request.awaits_response() || request.is_atomic()) return true;

  // A request that was repeated from its middle gets a "first" response there, so only the ends are
  // certain.
  const OutstandingReads::Range& range = reads_.holding(sequence);
  const bool is_last = sequence + 1 == range.end;
  if (info.ends_message() != is_last) return true;
  if (sequence == range.first && !info.starts_message()) return true;
  // The responses to FLUSH and ATOMIC WRITE are like that to a READ of 0 bytes (annex A19).
  const std::uint64_t asked = request.is_read() ? request.length : 0;
  const std::uint64_t offset = (sequence - request.first_sequence) * mtu_bytes_;
  return packet.payload.size() != std::min<std::uint64_t>(mtu_bytes_, asked - offset);
}

void Requester::place(const wire::Packet& packet, RequesterEffects& out) const {
  const PostedRequest& request = requests_[ack_slot_];
  if (request.is_atomic()) {
    out.list.push(PlaceAtomic{ack_slot_, packet.headers.atomic_ack});
  } else if (!packet.payload.empty()) {
    const std::uint64_t offset = (acknowledged_ - request.first_sequence) * mtu_bytes_;
    out.list.push(PlaceResponse{ack_slot_, offset, packet.payload});
  }
}

/// Acknowledges everything before `end`. Returns false if it contains an unanswered READ or atomic,
/// whose response was lost (IBA 9.7.6).
bool Requester::acknowledge_before(Sequence end, TimeNs now) {
  const Sequence before = acknowledged_;
  const std::uint64_t position_before = acknowledged_position_;
  bool response_missing = false;
  while (acknowledged_ < end) {
    const PostedRequest& request = requests_[ack_slot_];
    response_missing = request.awaits_response();
    if (response_missing) break;
    acknowledged_ = std::min(end, request.end_sequence());
    acknowledged_position_ = position_of(request, acknowledged_);
    if (acknowledged_ == request.end_sequence()) ++ack_slot_;
  }
  skip_local();
  if (acknowledged_ != before) {
    window_.on_acknowledged(acknowledged_position_ - position_before);
    note_progress(now);
  }
  return !response_missing;
}

/// Executed local operations count as acknowledged when all before them are.
void Requester::skip_local() {
  while (ack_slot_ < local_end_ && requests_[ack_slot_].is_local()) ++ack_slot_;
}

void Requester::note_progress(TimeNs now) {
  // The first answer tells how soon the peer answers, even if the packet that is timed was lost.
  if (!round_trip_.is_known() && retries_ == 0) {
    round_trip_.cancel();
    round_trip_.sent(acknowledged_ - 1, progress_at_);
  }
  retries_ = rnr_retries_ = 0;
  probe_due_ = has_probed_ = false;
  if (acknowledged_ > rnr_sequence_) waiting_rnr_ = false;
  progress_at_ = now;
  round_trip_.answered(acknowledged_, now);
  // Packets that were to be sent again have arrived after all.
  if (send_sequence_ < acknowledged_) {
    send_sequence_ = acknowledged_;
    send_slot_ = ack_slot_;
    ack_requested_position_ = acknowledged_position_;
  }
}

}  // namespace verbatim::transport

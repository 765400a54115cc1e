#include <cstring>
#include <utility>

#include "base/assert.h"
#include "transport/ib/responder/responder.h"

/// The state change of an accepted request packet, and how it is undone if memory is refused.
namespace verbatim::transport {

using wire::NakCode;
using wire::OpcodeInfo;
using wire::Verb;

/// The packet has passed every check: changes the state once, before any effect is carried out.
void Responder::accept(const wire::Packet& packet, const OpcodeInfo& info, ResponderEffects& out) {
  before_ = Before{};
  before_.expected_psn = expected_psn_;
  before_.msn = msn_;
  if (!established_) {
    established_ = true;
    out.push(Established{});
  }
  switch (info.verb) {
    case Verb::read_request:
      return accept_read(packet);
    case Verb::compare_swap:
    case Verb::fetch_add:
    case Verb::flush:
    case Verb::atomic_write:
      return accept_executed(packet, info, out);
    default:
      return accept_message_packet(packet, info, out);
  }
}

void Responder::accept_message_packet(const wire::Packet& packet, const OpcodeInfo& info,
                                      ResponderEffects& out) {
  const wire::Headers& headers = packet.headers;
  if (info.starts_message()) {
    message_ = {.active = true, .verb = info.verb, .srq = headers.xrc_eth.srq};
    if (info.has(wire::kReth)) {
      message_.key = headers.reth.key;
      message_.address = headers.reth.address;
      message_.length = headers.reth.length;
    }
  }
  if (!packet.payload.empty()) {
    if (info.verb == Verb::send) {
      out.push(PlaceReceive{
          .ticket = receive_->ticket, .offset = message_.received, .payload = packet.payload});
    } else {
      out.push(PlaceWrite{.key = message_.key,
                          .address = message_.address + message_.received,
                          .payload = packet.payload});
    }
    message_.received += packet.payload.size();
  }
  expected_psn_ = expected_psn_ + 1;
  if (info.ends_message()) {
    if (info.has(wire::kIeth)) out.push(InvalidateKey{headers.invalidate_key});
    if (info.verb == Verb::send || info.has(wire::kImmediate)) complete_receive(packet, info, out);
    message_.active = false;
    msn_ = msn_ + 1;
  }
  if (config_.service == wire::Service::uc) return;
  // IBA 9.7.5.1.2: an acknowledgement covers all before it, so a pending one advances with each
  // packet. A pending NAK for this packet is obsolete.
  const bool nak_waits = acknowledgement_.pending && !acknowledgement_.syndrome.is_ack();
  const bool ack_can_move = acknowledgement_.pending && responses_.empty();
  if (headers.bth.ack_request || nak_waits || ack_can_move) acknowledge({headers.bth.psn, msn_});
}

void Responder::complete_receive(const wire::Packet& packet, const OpcodeInfo& info,
                                 ResponderEffects& out) {
  const wire::Headers& headers = packet.headers;
  const bool has_immediate = info.has(wire::kImmediate);
  out.push(CompleteReceive{.ticket = receive_->ticket,
                           .status = Status::success,
                           .byte_count = message_.received,
                           .is_write = info.verb == Verb::write,
                           .has_immediate = has_immediate,
                           .immediate = has_immediate ? headers.immediate : 0,
                           .has_invalidated_key = info.has(wire::kIeth),
                           .invalidated_key = headers.invalidate_key,
                           .solicited = headers.bth.solicited_event});
  before_.completed = std::exchange(receive_, std::nullopt);
}

void Responder::accept_read(const wire::Packet& packet) {
  const wire::Headers& headers = packet.headers;
  msn_ = msn_ + 1;
  responses_.add_read(headers.bth.psn, msn_, headers.reth, config_.pd, config_.srq);
  // IBA 9.7.2: a READ takes as many PSNs as its response has packets.
  expected_psn_ = expected_psn_ + responses_.packets_of(headers.reth.length);
  drop_stale_nak();
}

/// Operations that are executed once, remembered, and answered when the result is known.
void Responder::accept_executed(const wire::Packet& packet, const OpcodeInfo& info,
                                ResponderEffects& out) {
  const wire::Headers& headers = packet.headers;
  msn_ = msn_ + 1;
  responses_.add_executed(headers.bth.psn, msn_, info.verb);
  before_.awaits_atomic_result = true;
  expected_psn_ = expected_psn_ + 1;
  drop_stale_nak();
  if (info.verb == Verb::flush) {
    out.push(ExecuteFlush{headers.feth.placement});
  } else if (info.verb == Verb::atomic_write) {
    ExecuteAtomicWrite write{.key = headers.reth.key, .address = headers.reth.address};
    std::memcpy(&write.value, packet.payload.data(), sizeof write.value);
    out.push(write);
  } else {
    const wire::AtomicEth& atomic = headers.atomic_eth;
    const bool swaps = info.verb == Verb::compare_swap;
    out.push(ExecuteAtomic{.key = atomic.key,
                           .address = atomic.address,
                           .compare_and_swap = swaps,
                           .compare_add = swaps ? atomic.compare : atomic.swap_or_add,
                           .swap = swaps ? atomic.swap_or_add : 0});
  }
}

void Responder::on_atomic_result(std::uint64_t original) {
  VERBATIM_ASSERT(before_.awaits_atomic_result);
  before_.awaits_atomic_result = false;
  responses_.set_atomic_result(original);
}

/// Restores the state before the last packet.
void Responder::undo_last() {
  expected_psn_ = before_.expected_psn;
  msn_ = before_.msn;
  if (before_.completed) receive_ = before_.completed;
}

void Responder::on_region_error(ResponderEffects& out) {
  if (config_.service == wire::Service::uc) {
    if (before_.completed) receive_ = before_.completed;  // Used for the next message.
    return drop_message();
  }
  undo_last();
  refuse(NakCode::remote_access_error, out);
}

void Responder::on_receive_memory_error(ResponderEffects& out) {
  undo_last();
  // IBA 9.9.3, "local memory protection error": the responder's own fault, on every service.
  fail_receive(Status::local_protection_error, NakCode::remote_operational_error, out);
}

}  // namespace verbatim::transport

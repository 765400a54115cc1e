#include "transport/ib/responder/responder.h"

#include <utility>

#include "base/assert.h"

/// Request packets: PSN checks and refusals. responder_accept.cpp executes accepted packets,
/// responder_transmit.cpp sends.
namespace verbatim::transport {

using wire::NakCode;
using wire::OpcodeInfo;
using wire::Syndrome;
using wire::Verb;

void Responder::reset() { configure(ResponderConfig{}); }

void Responder::configure(const ResponderConfig& config) {
  VERBATIM_ASSERT(config.max_dest_rd_atomic <= ResponseQueue::kDepthMax);
  config_ = config;
  expected_psn_ = config.expected_psn;
  msn_ = {};
  failed_ = false;
  established_ = false;
  awaiting_ = Awaiting::nothing;
  message_ = {};
  receive_.reset();
  acknowledgement_ = {};
  before_ = {};
  responses_.reset(config.max_dest_rd_atomic, config.path_mtu, config.service);
  counters_ = {};
}

void Responder::change(std::uint32_t access, std::uint8_t min_rnr_timer) {
  config_.access = access;
  config_.min_rnr_timer = min_rnr_timer;
}

void Responder::on_packet(const wire::Packet& packet, ReceiveSource& receives,
                          const region::RegionTable& regions, ResponderEffects& out) {
  const OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
  // IBA 9.6.1: silently drop a packet of another service than the queue pair's.
  if (failed_ || !info.is_request || info.service != config_.service) return;
  if (config_.service == wire::Service::uc) {
    on_unreliable(packet, info, receives, regions, out);
  } else {
    on_reliable(packet, info, receives, regions, out);
  }
}

void Responder::on_reliable(const wire::Packet& packet, const OpcodeInfo& info,
                            ReceiveSource& receives, const region::RegionTable& regions,
                            ResponderEffects& out) {
  const Psn psn = packet.headers.bth.psn;
  const std::int32_t ahead = distance(expected_psn_, psn);
  if (ahead > 0) return out_of_sequence();
  if (ahead < 0) return duplicate(packet, info, receives, regions);  // IBA C9-105.
  awaiting_ = Awaiting::nothing;
  if (packet.is_invalid) return refuse(NakCode::invalid_request, out);  // IBA 9.9.3, class C.

  // Checks in the order of IBA 9.7.4.1: opcodes, resources, lengths and keys.
  if (const auto code = check_operation(info, message_, config_)) return refuse(*code, out);
  if (!enter_domain(packet, info, receives)) return refuse(NakCode::invalid_request, out);
  if (is_remembered(info.verb) && responses_.full()) return refuse(NakCode::invalid_request, out);
  if (!ensure_receive(packet, info, receives)) {
    awaiting_ = Awaiting::retry_after_rnr;
    ++counters_.rnr_naks;
    return nak({psn, msn_}, Syndrome::rnr_nak(config_.min_rnr_timer));
  }
  if (const auto code = check_content(packet, info, message_, config_, regions)) {
    return refuse(*code, out);
  }
  if (receive_too_small(packet, info)) {
    // IBA 9.9.3: the receive completes with a length error, the sender gets "invalid request".
    return fail_receive(Status::local_length_error, NakCode::invalid_request, out);
  }
  accept(packet, info, out);
}

/// UC reports no refusal: the message is lost, and the next first or only packet begins another one
/// (IBA 9.8.2.2). A receive that a lost message has taken is used for the next message.
void Responder::on_unreliable(const wire::Packet& packet, const OpcodeInfo& info,
                              ReceiveSource& receives, const region::RegionTable& regions,
                              ResponderEffects& out) {
  const bool in_sequence = packet.headers.bth.psn == expected_psn_;
  if (!in_sequence) ++counters_.out_of_sequence;
  expected_psn_ = packet.headers.bth.psn;  // The stream continues here, whatever was lost.
  const bool broken = message_.active && (!in_sequence || !follows(info, message_));
  if (broken) drop_message();

  if (check_operation(info, message_, config_) || !ensure_receive(packet, info, receives) ||
      check_content(packet, info, message_, config_, regions) || receive_too_small(packet, info)) {
    // The rest of a dropped message is not counted again.
    if (message_.active || info.starts_message()) drop_message();
    expected_psn_ = expected_psn_ + 1;
    return;
  }
  accept(packet, info, out);
}

void Responder::drop_message() {
  message_ = {};
  ++counters_.dropped_messages;
}

void Responder::out_of_sequence() {
  ++counters_.out_of_sequence;
  // IBA 9.7.5.2.8: one NAK for a gap; packets are dropped until the expected one comes. The same
  // after an RNR NAK.
  if (awaiting_ != Awaiting::nothing) return;
  awaiting_ = Awaiting::missing_packet;
  nak({expected_psn_, msn_}, Syndrome::nak(NakCode::psn_sequence_error));
}

void Responder::duplicate(const wire::Packet& packet, const OpcodeInfo& info,
                          ReceiveSource& receives, const region::RegionTable& regions) {
  ++counters_.duplicates;
  if (packet.is_invalid) return;
  const wire::Headers& headers = packet.headers;
  const Psn psn = headers.bth.psn;
  switch (info.verb) {
    case Verb::send:
    case Verb::write:
      return acknowledge_duplicate(psn);
    case Verb::compare_swap:
    case Verb::fetch_add:
    case Verb::flush:
    case Verb::atomic_write:
      // Never executed again: the remembered result is sent again, or nothing if it is too old (IBA
      // 9.7.5.1).
      responses_.repeat_executed(psn, info.verb);
      return;
    case Verb::read_request: {
      // A READ is executed again, so its key must still be valid. If not, the packet is most likely
      // a duplicate made by the network, of a READ that completed long ago: it is dropped, which
      // does not break the connection.
      const wire::Reth& reth = headers.reth;
      const auto pd = config_.service == wire::Service::xrc
                          ? receives.domain_of(headers.xrc_eth.srq)
                          : config_.pd;
      if (!pd) return;
      if (reth.length == 0 || regions.check(reth.key, reth.address, reth.length,
                                            region::kRemoteRead, {*pd, config_.own_qp})) {
        responses_.repeat_read(psn, reth);
      }
      return;
    }
    default:
      return;
  }
}

/// XRC: the protection domain is that of the shared receive queue that the request names; all
/// packets of a message name the same queue (IBA annex A14). Returns false if the queue is not in
/// the queue pair's XRC domain.
bool Responder::enter_domain(const wire::Packet& packet, const OpcodeInfo& info,
                             ReceiveSource& receives) {
  if (config_.service != wire::Service::xrc) return true;
  const SrqNumber srq = packet.headers.xrc_eth.srq;
  if (!info.starts_message()) return srq == message_.srq;
  const auto pd = receives.domain_of(srq);
  if (!pd) return false;
  config_.pd = *pd;
  config_.srq = srq;
  return true;
}

/// Takes a receive request if the packet needs one and none is in use.
bool Responder::ensure_receive(const wire::Packet& packet, const OpcodeInfo& info,
                               ReceiveSource& receives) {
  if (!needs_receive(info) || receive_) return true;
  Receive taken;
  if (!receives.take(packet, taken)) return false;
  receive_ = taken;
  return true;
}

bool Responder::receive_too_small(const wire::Packet& packet, const OpcodeInfo& info) const {
  if (info.verb != Verb::send) return false;
  const std::uint64_t before = info.starts_message() ? 0 : message_.received;
  return before + packet.payload.size() > receive_->capacity_bytes;
}

/// Sends a NAK and moves the queue pair to the error state (IBA 9.9.3, class C faults).
void Responder::fail(NakCode code, ResponderFailed::Event event, ResponderEffects& out) {
  if (config_.service != wire::Service::uc) nak({expected_psn_, msn_}, Syndrome::nak(code));
  failed_ = true;
  out.push(ResponderFailed{event});
}

/// The peer broke a rule. The current receive is flushed with the others (take_current_receive).
void Responder::refuse(NakCode code, ResponderEffects& out) {
  fail(code,
       code == NakCode::remote_access_error ? ResponderFailed::Event::access_error
                                            : ResponderFailed::Event::request_error,
       out);
}

/// The current receive completes in error. The completion reports it, so there is no asynchronous
/// event.
void Responder::fail_receive(Status status, NakCode code, ResponderEffects& out) {
  out.push(CompleteReceive{.ticket = receive_->ticket, .status = status});
  receive_.reset();
  fail(code, ResponderFailed::Event::none, out);
}

std::optional<Receive> Responder::take_current_receive() {
  return std::exchange(receive_, std::nullopt);
}

}  // namespace verbatim::transport

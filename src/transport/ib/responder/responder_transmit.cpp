#include "transport/ib/responder/responder.h"

/// Responder's output: acknowledgements and NAKs between the responses to READs and atomics.
namespace verbatim::transport {

using wire::Syndrome;

namespace {

constexpr wire::Opcode kAcknowledge =
    wire::opcode_of(wire::Service::rc, wire::Verb::acknowledge, wire::Position::only);

}  // namespace

void Responder::acknowledge(ResponseQueue::Reach reach) {
  acknowledgement_ = {.pending = true, .reach = reach, .syndrome = Syndrome::ack()};
}

/// IBA C9-105: a repeated SEND or WRITE is acknowledged, never executed. One acknowledgement of the
/// newest possible PSN answers all repetitions: the one before the next READ or atomic. That
/// response may be the one that the requester misses, and an acknowledgement after it would say
/// that it is lost.
void Responder::acknowledge_duplicate(Psn psn) {
  const ResponseQueue::Reach reach = responses_.reach_between(psn, expected_psn_)
                                         .value_or(ResponseQueue::Reach{expected_psn_ - 1, msn_});
  // A pending one may say more: a later PSN, or a NAK.
  if (acknowledgement_.pending && distance(acknowledgement_.reach.psn, reach.psn) <= 0) return;
  acknowledge(reach);
}

void Responder::nak(ResponseQueue::Reach reach, Syndrome syndrome) {
  if (syndrome.is_nak()) ++counters_.naks;
  acknowledgement_ = {.pending = true, .reach = reach, .syndrome = syndrome};
}

/// The packet that a pending NAK is about has arrived.
void Responder::drop_stale_nak() {
  if (acknowledgement_.pending && !acknowledgement_.syndrome.is_ack()) {
    acknowledge({before_.expected_psn - 1, before_.msn});
  }
}

/// Answers are sent in the order of the requests (IBA 9.7.5.1): an acknowledgement waits for the
/// responses to earlier requests.
bool Responder::poll_transmit(OutgoingPacket& out) {
  if (!has_output()) return false;
  out = {};
  const bool acknowledgement_first =
      acknowledgement_.pending &&
      (responses_.empty() || distance(acknowledgement_.reach.psn, responses_.next_psn()) > 0);
  if (acknowledgement_first) {
    acknowledgement_.pending = false;
    out.headers.bth.opcode = wire::in_service(kAcknowledge, config_.service);
    out.headers.bth.psn = acknowledgement_.reach.psn;
    out.headers.aeth = {.syndrome = acknowledgement_.syndrome, .msn = acknowledgement_.reach.msn};
  } else {
    responses_.poll(out);
  }
  out.headers.bth.dest_qp = config_.dest_qp;
  out.headers.bth.pkey = config_.pkey;
  out.headers.bth.pad_count = static_cast<std::uint8_t>((4 - out.payload.length % 4) % 4);
  return true;
}

void Responder::on_read_error(ResponderEffects& out) {
  const auto reach = responses_.fail_last();
  // A repetition that cannot be answered any more is dropped, as in `duplicate`.
  if (!reach) return;
  nak(*reach, Syndrome::nak(wire::NakCode::remote_access_error));
  if (failed_) return;
  failed_ = true;
  out.push(ResponderFailed{ResponderFailed::Event::access_error});
}

}  // namespace verbatim::transport

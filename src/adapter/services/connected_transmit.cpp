#include "adapter/progress/progress.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/services/connected.h"
#include "adapter/services/request_packet.h"
#include "base/always_inline.h"
#include "link/udp/udp.h"

/// What connected queue pairs send: requests and responses, from the engines into bursts.
namespace verbatim::adapter::services {

static_assert(port::Burst::kPacketPiecesMax >= kSegmentsMax);

using transport::OutgoingPacket;
using transport::PayloadSource;
using transport::Status;

namespace {

/// Responses in one turn: a peer that reads a gigabyte must not hold this queue pair's lock all the
/// while.
constexpr int kResponsesPerPass = 256;

}  // namespace

/// While something is on its way: nothing waits alone for the program's next post.
bool Connected::may_gather() const {
  constexpr std::uint64_t kBytesTogether = link::kSendBytesMax / 2;
  return core_.is_reliable() && !direct_.is_open() && requester_.in_flight() &&
         core_.is_worth_gathering(kBytesTogether);
}

VERBATIM_ALWAYS_INLINE void Connected::transmit_packets(TimeNs now) {
  port::Burst burst(core_.around.arena.header().port_counters);
  burst.use(*route_);
  // A program that polls gets its own answer out first, and the acknowledgement rides behind it in
  // the same datagram; the receiver looks at acknowledgements first. One that waits for events may
  // rely on their order: as with a card, its request completes before the peer's answer comes.
  const bool has_requests = !direct_.is_open();
  const bool answer_first = has_requests && core_.around.progress.is_polled();
  if (answer_first) transmit_requests(burst, now);
  if (core_.state() != QpState::err && !transmit_responses(burst, now)) core_.come_again();
  if (has_requests && !answer_first) transmit_requests(burst, now);
  burst.flush();
  core_.record.counters.packets_sent.add_exclusive(burst.packets());
  core_.record.counters.bytes_sent.add_exclusive(burst.bytes());
}

void Connected::transmit(TimeNs now) {
  const QpState current = core_.state();
  if (current == QpState::err && route_ && route_->lossless) return send_last(false);
  const bool is_direct = direct_.is_open();
  if ((!route_ && !is_direct) || current == QpState::reset || current == QpState::init ||
      current == QpState::err) {
    return;
  }
  if (is_direct) direct_.transmit(now);
  if (!is_direct || responder_.has_output()) transmit_packets(now);
  publish_counters();
}

/// What the responder still has to say before the queue pair stops: the NAK that tells the peer
/// why, or an acknowledgement that waited for the next turn. If a lossless link has no room now,
/// `transmit` calls it again later.
void Connected::send_last(bool) {
  if (!route_ || !responder_.has_output()) return;
  port::Burst burst(core_.around.arena.header().port_counters);
  burst.use(*route_);
  transmit_responses(burst, 0);
}

void Connected::transmit_requests(port::Burst& burst, TimeNs now) {
  const auto is_stopped = [this] {
    return core_.state() != QpState::rts && core_.state() != QpState::sqd;
  };
  if (is_stopped()) return;
  // SQD sends nothing new, but finishes what it has begun.
  while (core_.state() == QpState::rts && core_.handed < core_.sends.posted()) {
    requester_.post(core_.sends.wqe(core_.handed++).request);
  }
  OutgoingPacket packet;
  for (;;) {
    if (requester_.may_have_output() && core_.may_send(now) &&
        has_room(core_, burst, bytes_of(core_.attributes.path_mtu)) &&
        requester_.poll_transmit(now, packet)) {
      core_.pacer.count(now, packet.payload.length + kWireOverheadBytes, route_->rate_kbps);
      // Waiting for the rate is no loss: what has left is acknowledged before.
      if (!core_.pacer.admits(now) && core_.type() != QpType::uc) {
        packet.headers.bth.ack_request = true;
      }
      if (add_request_packet(core_, burst, packet)) continue;
      refuse_request(packet.payload.slot, Status::local_protection_error);
      drain_requester();
    } else if (const auto slot = requester_.poll_local()) {
      burst.flush();  // What it holds may be what the operation waits for.
      if (const Status status = core_.carry_out(*slot); status != Status::success) {
        refuse_request(*slot, status);
        drain_requester();
      }
    } else {
      break;
    }
    if (is_stopped()) return;
  }
  // UC has done with a request when its last packet has left, so it must have left.
  if (core_.type() == QpType::uc) burst.flush();
  requester_.after_transmit(effects_);
  drain_requester();
}

/// A path's rate holds responses back, too. Only in RTS do timers run.
bool Connected::may_respond(TimeNs now) {
  return route_->rate_kbps == 0 || core_.state() != QpState::rts || core_.may_send(now);
}

/// Returns false if more is left for the next turn.
bool Connected::transmit_responses(port::Burst& burst, TimeNs now) {
  OutgoingPacket packet;
  for (int sent = 0; responder_.has_output() && may_respond(now) &&
                     has_room(core_, burst, bytes_of(core_.attributes.path_mtu)) &&
                     responder_.poll_transmit(packet);
       ++sent) {
    if (route_->rate_kbps != 0) {
      core_.pacer.count(now, packet.payload.length + kWireOverheadBytes, route_->rate_kbps);
    }
    if (!add_response_packet(burst, packet)) {
      transport::ResponderEffects effects;
      responder_.on_read_error(effects);
      drain_responder(effects);
    }
    if (sent == kResponsesPerPass) return !responder_.has_output();
  }
  return true;
}

bool Connected::add_response_packet(port::Burst& burst, const OutgoingPacket& packet) {
  const PayloadSource& payload = packet.payload;
  burst.begin(packet.headers, payload.length);
  const auto append = [&] {
    const bool is_elsewhere =
        raw(payload.srq) != 0 && !core_.around.shared_receives.has(payload.srq);
    if (is_elsewhere) return xrc_target_.append(burst, payload);
    return burst
        .append(core_.regions, payload.key, payload.address, payload.length, region::kRemoteRead,
                {payload.pd, core_.number})
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

void Connected::count_sent(const wire::Headers& headers) {
  if (!wire::info(headers.bth.opcode).has(wire::kAeth)) return;
  auto& counters = core_.record.counters;
  const wire::Syndrome& syndrome = headers.aeth.syndrome;
  auto& counter = syndrome.is_ack()   ? counters.acks_sent
                  : syndrome.is_nak() ? counters.naks_sent
                                      : counters.rnr_naks_sent;
  counter.add_exclusive();
}

/// What the engines count themselves.
void Connected::publish_counters() {
  auto& counters = core_.record.counters;
  counters.retransmissions.set(requester_.retransmissions());
  counters.duplicates.set(responder_.counters().duplicates);
  counters.out_of_sequence.set(responder_.counters().out_of_sequence);
}

}  // namespace verbatim::adapter::services

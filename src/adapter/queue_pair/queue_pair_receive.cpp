#include <cstring>

#include "adapter/adapter.h"
#include "adapter/direct/execute.h"
#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/os/fence.h"
#include "base/overloaded.h"
#include "region/held_memory.h"
#include "transport/ib/datagram.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

/// Packets and time-outs: passes them to the engines and carries out their effects.
namespace verbatim::adapter {

using transport::Status;

void QueuePair::on_packet(const wire::Packet& packet, const SocketAddress& source,
                          const SocketAddress& destination, TimeNs now) {
  const QpState current = state();
  const auto& info = wire::info(packet.headers.bth.opcode);
  if (current == QpState::reset || current == QpState::init || current == QpState::err ||
      is_raw() || info.service != service_of(type())) {
    adapter_.arena().header().port_counters.dropped_no_qp.add();  // IBA C9-30, C9-31.
    return;
  }
  count_received(packet.headers);
  record_->counters.bytes_received.add_exclusive(packet.payload.size() + wire::Bth::kSize +
                                                 info.header_bytes());
  if (is_datagram()) {
    on_datagram(packet, source, destination);
  } else {
    on_connected_packet(packet, source, now);
  }
  if (fatal_) fail();
}

bool QueuePair::end_reception() {
  placement_hold_.release();
  check_drained();
  if (!is_connected()) return false;
  rearm_timer();
  return responder_.has_output() || requester_.outstanding() > 0 || handed_ < send_queue_.posted();
}

void QueuePair::on_connected_packet(const wire::Packet& packet, const SocketAddress& source,
                                    TimeNs now) {
  // IBA 9.6.1.1.2: a connected queue pair accepts only packets from its peer.
  if (!same_roce_address(source, peer_)) {
    adapter_.arena().header().port_counters.dropped_no_qp.add();
    return;
  }
  if (wire::info(packet.headers.bth.opcode).is_request) {
    if (type() == QpType::xrc_send) return;  // It only sends requests.
    const bool may_be_imported = type() == QpType::xrc_receive &&
                                 !adapter_.shared_receives().has(packet.headers.xrc_eth.srq);
    if (may_be_imported && on_packet_for_queue_owner(packet)) return;
    Receives receives(*this);
    transport::ResponderEffects effects;
    responder_.on_packet(packet, receives, regions_, effects);
    drain(effects);
  } else if (state() != QpState::rtr) {
    requester_.on_packet(packet, now, requester_effects_);
    drain(requester_effects_);
  }
}

void QueuePair::on_timer(TimeNs now) {
  std::unique_lock guard(lock_);
  armed_deadline_ = kNever;
  if (stream_ != nullptr && (stream_->is_polled || now >= stream_->goes_on_at)) {
    guard.unlock();
    return on_stream(now);
  }
  if (state() != QpState::rts && state() != QpState::sqd) return;
  if (link_ != nullptr) return transmit_locked(now);
  if (now >= requester_.deadline()) {
    record_->counters.timeouts.add_exclusive();
    requester_.on_timeout(now, requester_effects_);
    drain(requester_effects_);
  } else if (!held_back_) {
    return rearm_timer();  // The deadline has moved.
  }
  if (fatal_) fail();
  transmit_locked(now);
}

void QueuePair::drain(transport::RequesterEffects& effects) {
  bool more = false;
  do {
    for (const auto& effect : effects.list) apply(effect);
    more |= effects.more;
    effects.list.clear();
    effects.more = false;
    if (refused_slot_) {
      // Before later effects: the refused request must not complete with success.
      const transport::Slot slot = *std::exchange(refused_slot_, std::nullopt);
      if (stream_ != nullptr) {
        refuse_stream_request(slot, Status::local_protection_error);
      } else {
        requester_.on_local_error(slot, Status::local_protection_error, effects);
      }
    } else if (std::exchange(more, false)) {
      stream_ != nullptr ? stream_->endpoint.requester().resume(effects)
                         : requester_.resume(effects);
    }
  } while (more || effects.more || !effects.list.empty());
}

void QueuePair::apply(const transport::RequesterEffect& effect) {
  std::visit(Overloaded{[this](const transport::PlaceResponse& place) {
                          const auto placed = scatter(placement_hold_, regions_, send_pd(),
                                                      send_queue_.segments(place.slot),
                                                      place.offset, place.payload);
                          if (!placed && !refused_slot_) refused_slot_ = place.slot;
                        },
                        [this](const transport::PlaceAtomic& place) {
                          const auto placed = scatter(placement_hold_, regions_, options_.pd,
                                                      send_queue_.segments(place.slot), 0,
                                                      std::as_bytes(std::span(&place.original, 1)));
                          if (!placed && !refused_slot_) refused_slot_ = place.slot;
                        },
                        [this](const transport::CompleteRequest& complete) {
                          complete_send(complete.slot, complete.status);
                        },
                        [this](const transport::RequesterFailed&) {
                          if (!is_reliable()) {
                            enter_send_queue_error();
                          } else {
                            fatal_ = true;
                          }
                        }},
             effect);
}

void QueuePair::drain(transport::ResponderEffects& effects) {
  for (;;) {
    for (const auto& effect : effects) apply(effect);
    effects.clear();
    const Refused refused = std::exchange(responder_refused_, Refused::nothing);
    if (refused == Refused::nothing) return;
    const auto report_refusal = [&](auto& engine) {
      refused == Refused::region ? engine.on_region_error(effects)
                                 : engine.on_receive_memory_error(effects);
    };
    stream_ != nullptr ? report_refusal(stream_->endpoint) : report_refusal(responder_);
  }
}

void QueuePair::apply(const transport::ResponderEffect& effect) {
  if (responder_refused_ != Refused::nothing) return;  // Effects after a refusal are dropped.
  if (queue_owner_ != nullptr && apply_at_queue_owner(effect)) return;
  std::visit(
      Overloaded{[this](const transport::PlaceReceive& place) {
                   const std::span segments(current_receive_.segments,
                                            current_receive_.segment_count);
                   const auto part =
                       tagged_.part(place.offset, place.payload, current_receive_.capacity_bytes);
                   if (!scatter(placement_hold_, regions_, receive_pd(), segments, part.offset,
                                part.payload)) {
                     responder_refused_ = Refused::receive_memory;
                   }
                 },
                 [this](const transport::PlaceWrite& place) {
                   const auto hold =
                       placement_hold_.get(regions_, place.key, place.address, place.payload.size(),
                                           region::kRemoteWrite, peer_accessor());
                   if (!hold || !write_held(**hold, place.payload)) {
                     responder_refused_ = Refused::region;
                   }
                 },
                 [this](const transport::ExecuteAtomic& atomic) {
                   const auto original = execute(regions_, atomic, peer_accessor());
                   if (original && stream_ != nullptr) {
                     stream_->endpoint.responder().on_atomic_result(*original);
                   } else if (original) {
                     responder_.on_atomic_result(*original);
                   } else {
                     responder_refused_ = Refused::region;
                   }
                 },
                 [this](const transport::ExecuteAtomicWrite& write) {
                   if (execute(regions_, write, peer_accessor())) {
                     responder_.on_atomic_result(0);
                   } else {
                     responder_refused_ = Refused::region;
                   }
                 },
                 [this](const transport::ExecuteFlush&) {
                   // A write is in this machine's memory when it is placed: a flush to global
                   // visibility only requires its order.
                   full_fence();
                   responder_.on_atomic_result(0);
                 },
                 [this](const transport::InvalidateKey& invalidate) {
                   placement_hold_.release();  // Else it could wait for this thread itself.
                   if (!regions_.invalidate(invalidate.key, peer_accessor())) {
                     responder_refused_ = Refused::region;
                   }
                 },
                 [this](const transport::CompleteReceive& receive) { complete_receive(receive); },
                 [this](const transport::Established&) {
                   if (state() == QpState::rtr) raise(AsyncEventType::communication_established);
                 },
                 [this](const transport::ResponderFailed& failed) {
                   using Event = transport::ResponderFailed::Event;
                   if (failed.event == Event::request_error)
                     raise(AsyncEventType::qp_request_error);
                   if (failed.event == Event::access_error) raise(AsyncEventType::qp_access_error);
                   if (failed.event == Event::fatal) raise(AsyncEventType::qp_fatal);
                   fatal_ = true;
                 }},
      effect);
}

}  // namespace verbatim::adapter

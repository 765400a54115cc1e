#include "adapter/services/effects.h"

namespace verbatim::adapter::services {

void carry_out(QueuePairCore& core, const transport::RequesterEffect& effect,
               std::optional<transport::Slot>& refused) {
  const auto scatter_response = [&](PdNumber pd, transport::Slot slot, std::uint64_t offset,
                                    ByteSpan bytes) {
    const auto placed =
        scatter(core.placing, core.regions, pd, core.sends.segments(slot), offset, bytes);
    if (!placed && !refused) refused = slot;
  };
  std::visit(Overloaded{[&](const transport::PlaceResponse& place) {
                          scatter_response(core.send_pd(), place.slot, place.offset, place.payload);
                        },
                        [&](const transport::PlaceAtomic& place) {
                          scatter_response(core.options.pd, place.slot, 0,
                                           std::as_bytes(std::span(&place.original, 1)));
                        },
                        [&](const transport::CompleteRequest& complete) {
                          core.complete_send(complete.slot, complete.status);
                        },
                        [&](const transport::RequesterFailed&) {
                          if (!core.is_reliable()) {
                            core.enter_send_queue_error();
                          } else {
                            core.fatal = true;
                          }
                        }},
             effect);
}

Refused place(QueuePairCore& core, const transport::PlaceReceive& place) {
  const ReceiveRequest& receive = core.receives.current;
  const auto part = core.receives.tagged.part(place.offset, place.payload, receive.capacity_bytes);
  const auto placed =
      scatter(core.placing, core.regions, core.receive_pd(),
              std::span(receive.segments, receive.segment_count), part.offset, part.payload);
  return refused_unless(placed.has_value(), Refused::receive_memory);
}

Refused place(QueuePairCore& core, const transport::PlaceWrite& place,
              const region::Accessor& peer) {
  const auto hold = core.placing.get(core.regions, place.key, place.address, place.payload.size(),
                                     region::kRemoteWrite, peer);
  return refused_unless(hold && write_held(**hold, place.payload), Refused::region);
}

void fail(QueuePairCore& core, const transport::ResponderFailed& failed) {
  using Event = transport::ResponderFailed::Event;
  if (failed.event == Event::request_error) core.raise(AsyncEventType::qp_request_error);
  if (failed.event == Event::access_error) core.raise(AsyncEventType::qp_access_error);
  if (failed.event == Event::fatal) core.raise(AsyncEventType::qp_fatal);
  core.fatal = true;
}

}  // namespace verbatim::adapter::services

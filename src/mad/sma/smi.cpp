#include "mad/sma/smi.h"

namespace verbatim::mad {
namespace {

using wire::DirectedRoute;
using wire::kPermissiveLid;
using Kind = SmiStep::Kind;

/// Only switches forward, and only by ports that they have.
SmiStep forward(const SmiPlace& place, std::uint8_t port) {
  if (!place.is_switch || port == 0 || port > place.ports) return {};
  return {.kind = Kind::transmit, .port = port};
}

/// The sender's part of a route leaves by its own port.
SmiStep leave(const SmiPlace& place, std::uint8_t port) {
  if (port != place.port) return {};
  return {.kind = Kind::transmit, .port = port};
}

/// The directed part ends here.
SmiStep end_of_request(DirectedRoute& route, const SmiPlace& place) {
  ++route.hop_pointer;
  if (route.destination_lid == kPermissiveLid) return {.kind = Kind::deliver};
  if (!place.is_switch) return {};
  return {.kind = Kind::by_lid, .lid = route.destination_lid};
}

SmiStep receive_request(DirectedRoute& route, const SmiPlace& place) {
  if (route.hop_pointer == route.hop_count + 1) return {.kind = Kind::deliver};  // C14-9 (4).
  if (route.hop_pointer == 0 && route.hop_count > 0) {
    // A part by LID led here; the directed one begins.
    if (!place.came_by_lid) return {};
    route.hop_pointer = 1;
    return forward(place, route.initial_path[1]);
  }
  if (route.hop_count > 0) route.return_path[route.hop_pointer] = place.port;
  if (route.hop_pointer == route.hop_count) return end_of_request(route, place);
  ++route.hop_pointer;
  return forward(place, route.initial_path[route.hop_pointer]);
}

SmiStep receive_response(DirectedRoute& route, const SmiPlace& place) {
  if (route.hop_pointer == 0) return {.kind = Kind::deliver};
  if (route.hop_count > 0 && route.hop_pointer == route.hop_count + 1 && !place.came_by_lid) {
    return {};  // C14-13 (1).
  }
  --route.hop_pointer;
  if (route.hop_pointer > 0) return forward(place, route.return_path[route.hop_pointer]);
  if (route.source_lid == kPermissiveLid) return {.kind = Kind::deliver};
  if (!place.is_switch) return {};
  return {.kind = Kind::by_lid, .lid = route.source_lid};
}

SmiStep send_request(DirectedRoute& route, const SmiPlace& place, Lid destination) {
  if (route.hop_pointer != 0) return {};
  if (route.source_lid != kPermissiveLid) return {.kind = Kind::by_lid, .lid = destination};
  if (route.hop_count == 0) return end_of_request(route, place);
  route.hop_pointer = 1;
  return leave(place, route.initial_path[1]);
}

SmiStep send_response(DirectedRoute& route, const SmiPlace& place) {
  if (route.hop_pointer != route.hop_count + 1) return {};
  if (route.destination_lid != kPermissiveLid) return {.kind = Kind::by_lid, .lid = place.peer};
  --route.hop_pointer;
  if (route.hop_count > 0) return leave(place, route.return_path[route.hop_pointer]);
  if (route.source_lid == kPermissiveLid) return {.kind = Kind::deliver};
  return {.kind = Kind::by_lid, .lid = route.source_lid};
}

}  // namespace

SmiStep smi_send(DirectedRoute& route, const SmiPlace& place) {
  if (!route.is_within_path()) return {};
  return route.is_returning ? send_response(route, place) : send_request(route, place, place.peer);
}

SmiStep smi_receive(DirectedRoute& route, const SmiPlace& place) {
  if (!route.is_within_path()) return {};
  return route.is_returning ? receive_response(route, place) : receive_request(route, place);
}

}  // namespace verbatim::mad

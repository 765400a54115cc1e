#pragma once

#include <cstdint>

#include "base/net/path.h"
#include "wire/subnet/smp.h"

/// The subnet management interface of a port: what it does with a directed-route SMP, hop by hop
/// (IBA 14.2.2). Pure: hop pointer and return path are in the route, which each step advances.
namespace verbatim::mad {

/// What happens next to the SMP.
struct SmiStep {
  enum class Kind : std::uint8_t {
    discard,   // The route cannot be; nobody is told (C14-9, C14-13).
    deliver,   // To this node: its SMA, or the software that asked.
    transmit,  // Out of `port`.
    by_lid,    // The LID-routed part begins: to `lid`.
  };
  Kind kind = Kind::discard;
  std::uint8_t port = 0;
  Lid lid{};
  friend bool operator==(const SmiStep&, const SmiStep&) = default;
};

/// Where the SMP stands.
struct SmiPlace {
  bool is_switch = false;
  std::uint8_t ports = 0;    // Physical ones.
  std::uint8_t port = 0;     // By which it came; or of the software or SMA that sends it.
  Lid peer{};                // To which a LID-routed first part leads.
  bool came_by_lid = false;  // Routed by its DLID, and here is its destination.
};

/// A request or response that the node's own software, or its SMA, sends.
SmiStep smi_send(wire::DirectedRoute& route, const SmiPlace& place);
/// One that came over a link.
SmiStep smi_receive(wire::DirectedRoute& route, const SmiPlace& place);

}  // namespace verbatim::mad

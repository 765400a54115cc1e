#pragma once

#include <optional>

#include "fabric/topology/topology.h"
#include "wire/subnet/port_info.h"

namespace verbatim::fabric {

/// The rate at which a link comes up: the widest and fastest that the cable carries and both ends
/// enable. Nothing if an end does not look for a peer, or they have no rate in common.
std::optional<Rate> trained_rate(Rate cable, const wire::PortInfo& a, const wire::PortInfo& b);

}  // namespace verbatim::fabric

#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "fabric/daemon/hosts/host_addresses.h"
#include "fabric/management/management_net.h"

namespace verbatim::fabric {

/// Names may have any bytes; JSON is UTF-8.
std::string printable(std::string text);

/// "down", "init", "armed", "active".
const char* state_name(wire::PortState state);

/// Nodes and links as `verbatim fabric show --json` prints them.
nlohmann::ordered_json status_of(const ManagementNet& net, const HostAddresses& addresses,
                                 const DataCounters& counters);

}  // namespace verbatim::fabric

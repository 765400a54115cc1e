#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// A bit for each service level.
using LevelSet = std::uint16_t;

/// The service levels of packets from a port, by the LID that they go to.
using LevelsByLid = std::vector<LevelSet>;

/// The service levels of what hosts' ports send.
struct ServiceLevels {
  std::map<PortPlace, LevelsByLid> by_port;
  LevelSet of_other_ports = 1;  // To any LID.
};

}  // namespace verbatim::fabric

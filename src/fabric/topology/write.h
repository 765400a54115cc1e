#pragma once

#include <string>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

enum class Format : std::uint8_t {
  ibnetdiscover,  // Nodes by their GUIDs, as `ibnetdiscover` prints.
  ibsim,          // Nodes by their names, if these are short and differ; else by their GUIDs.
};

/// The topology as a file, without a date. A length is written behind a link's rate, if there is
/// one: " length 5 m". Requires a topology without faults.
std::string write_topology(const Topology& topology, Format format);

}  // namespace verbatim::fabric

#pragma once

#include <string_view>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// A file, read. It is a fabric if there are no faults.
struct Reading {
  Topology topology;
  std::vector<Fault> faults;
  std::vector<Fault> remarks;  // What was strange, and how it was taken.
};

/// Reads the output of `ibnetdiscover`, or ibsim's net format. A node without a GUID gets the one
/// that ibsim would give it; a link without a rate is 4xSDR, as there.
Reading read_topology(std::string_view text);

}  // namespace verbatim::fabric

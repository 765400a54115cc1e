#pragma once

#include <cstdint>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

struct GenerateOptions {
  std::uint32_t hosts = 0;
  unsigned switch_ports = 36;
  /// Of fat trees: host ports of a leaf for each of its uplinks; 1 carries all at once.
  unsigned oversubscription = 1;
  Rate rate{LinkWidth::x4, LinkSpeed::hdr};
  std::uint32_t length_m = 0;
};

}  // namespace verbatim::fabric

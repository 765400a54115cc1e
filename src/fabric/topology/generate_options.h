#pragma once

#include <cstdint>
#include <string>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

struct GenerateOptions {
  std::uint32_t hosts = 0;
  /// Of each host. With two, the ports have different switches where the shape has more than one.
  unsigned host_ports = 1;
  unsigned switch_ports = 36;
  /// Of fat trees: host ports of a leaf for each of its uplinks; 1 carries all at once.
  unsigned oversubscription = 1;
  Rate rate{LinkWidth::x4, LinkSpeed::hdr};
  std::uint32_t length_m = 0;
  /// Of fabrics that trunks join: their GUIDs and names differ by these.
  std::uint16_t guid_base = 0;
  std::string name_prefix;
};

}  // namespace verbatim::fabric

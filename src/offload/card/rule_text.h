#pragma once

#include <string>

#include "offload/switch/tuple.h"

namespace verbatim::offload {

/// Returns the rule as a command of DPDK's testpmd: "flow create 1 transfer pattern eth / ipv4 dst
/// is 10.0.0.1 / end actions port_id id 2 / end".
std::string text_of(const StoredRule& rule);

}  // namespace verbatim::offload

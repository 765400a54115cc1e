#pragma once

#include <cstdint>
#include <vector>

#include <rte_flow.h>

namespace verbatim::offload::driver {

/// The header that a VXLAN_ENCAP describes, as on the wire; empty if an item is not known. Specs
/// point to bytes of headers, which are shorter than the items' structures. What dpdk-testpmd
/// leaves zero gets its usual value.
std::vector<std::uint8_t> header_of(const rte_flow_item* items);

}  // namespace verbatim::offload::driver

#pragma once

#include <rte_flow.h>

#include "offload/ring/layout.h"

namespace verbatim::offload::driver {

/// Translates a pattern into a rule's key and mask. Returns null, or the item that the card cannot
/// match. Bits outside an item's mask are ignored; the item's memory is read during the call only.
const rte_flow_item* translate_pattern(const rte_flow_item* items, vnic_rule& rule);

}  // namespace verbatim::offload::driver

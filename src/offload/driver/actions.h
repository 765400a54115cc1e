#pragma once

#include <rte_flow.h>

#include "offload/driver/device.h"

namespace verbatim::offload::driver {

/// Translates actions. Returns null, or the action that the card does not take.
const rte_flow_action* translate_actions(const Device& device, const rte_flow_action* actions,
                                         vnic_rule& rule);

}  // namespace verbatim::offload::driver

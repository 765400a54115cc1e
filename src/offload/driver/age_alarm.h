#pragma once

#include "offload/driver/device.h"

namespace verbatim::offload::driver {

/// What a query of an age answers.
rte_flow_query_age answer_of(const Age& age);
/// Has DPDK's alarm look twice a second at rules that age, as long as there are any. The rules'
/// lock is held.
void look_for_age(Device& device);
/// The device ends: nothing looks any more. The lock is not held.
void stop_looking_for_age(Device& device);

}  // namespace verbatim::offload::driver
